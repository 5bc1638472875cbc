"""Numbers that describe a matrix without identifying it: norms, tails, zeros, and the lattice it may sit on.

Per-layer standard deviations once passed for a fingerprint (.91 between two unrelated 7B models); here they are only
what their names say: scale, prune and quantise signals for the comparison that already knows the lineage.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch

from fingerprint.fingerprint import Lattice, Statistics

SAMPLE_ELEMENTS = 1 << 16
"""Matrices up to this size are seen whole; larger ones through keyed rows that hold about as many values."""
MIN_SAMPLE_ROWS = 8
LATTICE_ROWS = 4
LATTICE_GROUPS = 8
GROUP_SIZES = (128, 64, 32)
LEVELS = (7, 8, 15, 127, 128, 255)
"""Largest code of the usual schemes: int4 symmetric, int4 full, uint4, and the same for 8 bits."""
COHERENT = 0.6
"""Mean phase from which values count as lying on a lattice. The null is 0 with a deviation of .7 / sqrt(values)."""
_LEAST_PHASES = 128
_LEVELS = torch.tensor(LEVELS, dtype=torch.float32)[:, None]
_CONSTANT = 1e-12
"""Variance over squared peak below which values count as constant."""
_FEW_LEVELS = 0.5
"""Distinct over possible values, in the group that has most, up to which values count as few levels."""
_MAX_ROW_VALUES = 512
_MAX_POOLED_VALUES = 1024


def sample_rows(rows: int, columns: int) -> int:
    """How many rows of a (rows x columns) matrix are sampled."""
    if rows * columns <= SAMPLE_ELEMENTS:
        return rows
    return min(rows, max(MIN_SAMPLE_ROWS, SAMPLE_ELEMENTS // max(1, columns)))


def quantiles(values: np.ndarray) -> np.ndarray:
    """Values at ranks 0, 1/8 .. 1, float32 (9,); zeros for no values."""
    if values.size == 0:
        return np.zeros(9, dtype=np.float32)
    ranks = np.linspace(0, values.size - 1, 9).round().astype(np.int64)
    return np.sort(values.astype(np.float32))[ranks]


def summarise(row_norms: np.ndarray, sample: np.ndarray, columns: int, nonfinite: int = 0) -> Statistics:
    """Statistics of a matrix.

    Args:
        row_norms: float32 (m,) Euclidean norms of all rows.
        sample: float32 (rows, n) sampled rows.
        columns: Row length n.
        nonfinite: Rows that held NaN or infinity.
    """
    norm = float(np.sqrt(np.sum(row_norms.astype(np.float64) ** 2)))
    rows = quantiles(row_norms / np.sqrt(max(1, columns)))
    x = torch.from_numpy(np.ascontiguousarray(sample, dtype=np.float32)).reshape(-1)
    if not x.numel():
        return Statistics(norm, 0.0, 0.0, 0.0, 0.0, rows, nonfinite)
    peak = float(torch.linalg.vector_norm(x, torch.inf))
    scaled = x / peak if peak > 0 else x
    mean = float(scaled.sum()) / x.numel()
    squares = (scaled - mean).square_()
    second = float(squares.sum()) / x.numel()
    fourth = float(torch.linalg.vector_norm(squares)) ** 2 / x.numel()
    kurtosis = fourth / second**2 - 3.0 if second > _CONSTANT else 0.0
    zeros = 1.0 - int(torch.count_nonzero(x)) / x.numel()
    return Statistics(norm, mean * peak, kurtosis, peak, zeros, rows, nonfinite)


def lattice(sample: np.ndarray) -> Lattice:
    """Look for few levels or even spacing in sampled rows.

    Counting distinct values finds anything with at most 6 bits and survives any cast. For 8 bits a group holds
    fewer values than levels, so the phase of ``value * level / largest`` decides: rounding to bfloat16 shifts a
    code c by at most c / 512 steps, which leaves the phases together.

    Args:
        sample: float32 (rows, n); up to LATTICE_ROWS of them are used.
    """
    rows = sample[_spread(sample.shape[0], LATTICE_ROWS)]
    evidence = np.full(9, np.nan, dtype=np.float32)
    if rows.size == 0:
        return Lattice(0, "", evidence)
    wide = rows[:, :_MAX_POOLED_VALUES]
    counts = {"tensor": _distinct(wide.reshape(1, -1)), "row": _distinct(wide)}
    groups = _groups(rows)
    sizes = [size for size in GROUP_SIZES if groups.shape[1] % size == 0]
    coherence: _Coherences = {"row": _coherences(_evenly(rows, _MAX_ROW_VALUES), (0,))[0]}
    coherence |= dict(zip((f"group{size}" for size in sizes), _coherences(groups, sizes), strict=True))
    counts |= {f"group{size}": _distinct(groups.reshape(-1, size)) for size in sizes}
    names = ["tensor", "row", *(f"group{s}" for s in GROUP_SIZES)]
    evidence[:5] = [np.nan if (c := counts.get(n)) is None else c[1] for n in names]
    evidence[5:] = [np.nan if (e := coherence.get(n)) is None else e[0] for n in names[1:]]
    bits, scheme = _decide(counts, coherence)
    return Lattice(bits, scheme, evidence)


_Counts = dict[str, tuple[int, float] | None]
_Coherences = dict[str, tuple[float, int] | None]


def _decide(counts: _Counts, coherence: _Coherences) -> tuple[int, str]:
    """Width and scheme; the fewest levels win, then the coarsest granularity."""
    widths = []
    for rank, name in enumerate(("tensor", "row", "group128", "group64", "group32")):
        found = counts.get(name)
        if found is not None and found[1] <= _FEW_LEVELS:
            widths.append((max(1, int(np.ceil(np.log2(found[0] + 1)))), rank, name))
    if widths and min(widths)[0] <= 8:
        bits, _, name = min(widths)
        even = coherence.get("row" if name == "tensor" else name)
        kind = "int" if even is not None and even[0] >= COHERENT else ("nf" if bits == 4 else "levels")
        return bits, f"{kind}{bits}-{name}"
    for name in ("row", "group128", "group64", "group32"):
        even = coherence.get(name)
        if even is not None and even[0] >= COHERENT:
            bits = 8 if even[1] > 15 else 4
            return bits, f"int{bits}-{name}"
    return 0, ""


def _distinct(groups: np.ndarray | None) -> tuple[int, float] | None:
    """Most distinct non-zero values of a group, and the largest share of distinct among a group's non-zero values."""
    if groups is None or groups.size == 0:
        return None
    ordered = np.sort(groups, axis=1)
    nonzero = np.count_nonzero(ordered, axis=1)
    steps = (np.diff(ordered, axis=1) != 0) & (ordered[:, 1:] != 0)
    distinct = np.count_nonzero(steps, axis=1) + (ordered[:, 0] != 0)
    usable = (nonzero >= 16) & (2 * nonzero >= groups.shape[1])
    if not usable.any():
        return None
    return int(distinct[usable].max()), float((distinct[usable] / nonzero[usable]).max())


def _coherences(rows: np.ndarray, sizes: Sequence[int]) -> list[tuple[float, int] | None]:
    """Per group size, the best mean of cos(2 pi value * level / largest of its group) over the levels, and the level.

    Values below half a step would have become zero, so zeros do not count and other such values count against.

    Args:
        rows: float32 (n, width).
        sizes: Group sizes that divide the width; 0 for whole rows.
    """
    rows = rows[2 * np.count_nonzero(rows, axis=1) >= rows.shape[1]]
    values = torch.from_numpy(np.ascontiguousarray(rows))
    zero = values == 0
    count = values.numel() - int(zero.sum())
    if count < _LEAST_PHASES or rows.shape[1] < 16 or not sizes:
        return [None] * len(sizes)
    magnitude = values.abs()
    peaks = [magnitude.view(-1, size or rows.shape[1]).amax(dim=1) for size in sizes]
    spread = [p.repeat_interleave(size or rows.shape[1]) for p, size in zip(peaks, sizes, strict=True)]
    codes = (magnitude.view(-1) / torch.stack(spread))[:, None, :] * _LEVELS
    agreement = torch.cos(codes * (2 * torch.pi)).masked_fill_(codes < 0.5, -1.0).masked_fill_(zero.view(-1), 0.0)
    found: list[tuple[float, int] | None] = []
    for means in (agreement.sum(dim=2) / count).tolist():
        best = max(range(len(LEVELS)), key=means.__getitem__)
        found.append((max(0.0, means[best]), LEVELS[best]))
    return found


def _groups(rows: np.ndarray) -> np.ndarray:
    """Up to LATTICE_GROUPS aligned groups of 128 columns (64 or 32 in narrower rows), spread over the sampled rows."""
    size = next((size for size in GROUP_SIZES if rows.shape[1] >= size), rows.shape[1])
    per_row = rows.shape[1] // size
    groups = rows[:, : per_row * size].reshape(-1, size)
    return np.asarray(groups[_spread(groups.shape[0], LATTICE_GROUPS)])


def _evenly(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows with at most ``count`` values, the largest of each row always among them."""
    if rows.shape[1] <= count:
        return rows
    picked = rows[:, _spread(rows.shape[1], count - 1)]
    peak = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.concatenate([picked, peak], axis=1)


@functools.lru_cache(maxsize=256)
def _spread(size: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, count)).round().astype(np.int64))
