"""Numbers that describe a matrix without identifying it: norms, tails, zeros, and the lattice it may sit on.

Per-layer standard deviations once passed for a fingerprint (.91 between two unrelated 7B models); here they are only
what their names say: scale, prune and quantise signals for the comparison that already knows the lineage.
"""

from __future__ import annotations

import functools

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
_LEVELS = torch.tensor(LEVELS, dtype=torch.float32)[:, None, None]
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
    coherence: _Coherences = {"row": _coherence(_evenly(rows, _MAX_ROW_VALUES))}
    groups = _groups(rows)
    for size in GROUP_SIZES:
        fitting = groups.reshape(-1, size) if groups.shape[1] % size == 0 else groups[:0].reshape(0, size)
        counts[f"group{size}"] = _distinct(fitting)
        coherence[f"group{size}"] = _coherence(fitting)
    names = ["tensor", "row", *(f"group{s}" for s in GROUP_SIZES)]
    evidence[:5] = [np.nan if (c := counts[n]) is None else c[1] for n in names]
    evidence[5:] = [np.nan if (e := coherence[n]) is None else e[0] for n in names[1:]]
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


def _coherence(groups: np.ndarray | None) -> tuple[float, int] | None:
    """Best mean of cos(2 pi value * level / largest) over the levels, and the level.

    Values below half a step would have become zero, so zeros do not count and other such values count against.
    Groups in which over half of the values are zero, or of under 16 columns, are skipped.
    """
    if groups is None or groups.shape[1] < 16:
        return None
    nonzero = np.count_nonzero(groups, axis=1)
    keep = 2 * nonzero >= groups.shape[1]
    if keep.sum() * groups.shape[1] < _LEAST_PHASES:
        return None
    used = torch.from_numpy(np.ascontiguousarray(groups[keep]))
    codes = (used / used.abs().amax(dim=1, keepdim=True))[None] * _LEVELS
    agreement = torch.cos(codes * (2 * torch.pi)).masked_fill_(codes.abs() < 0.5, -1.0)
    zeros = torch.from_numpy(groups.shape[1] - nonzero[keep])
    means = ((agreement.sum(dim=2) + zeros) / (groups.shape[1] - zeros)).mean(dim=1).tolist()
    best = max(range(len(LEVELS)), key=means.__getitem__)
    return max(0.0, means[best]), LEVELS[best]


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
