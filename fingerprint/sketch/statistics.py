"""Numbers that describe a matrix without identifying it: norms, tails, zeros, and the lattice it may sit on.

Per-layer standard deviations once passed for a fingerprint (.91 between two unrelated 7B models); here they are only
what their names say: scale, prune and quantise signals for the comparison that already knows the lineage.
"""

from __future__ import annotations

import numpy as np
import torch

from fingerprint.fingerprint import Lattice, Statistics

SAMPLE_ELEMENTS = 1 << 18
"""Matrices up to this size are seen whole; larger ones through keyed rows that hold about as many values."""
MIN_SAMPLE_ROWS = 8
LATTICE_ROWS = 8
LATTICE_GROUPS = 24
GROUP_SIZES = (128, 64, 32)
LEVELS = (7, 8, 15, 127, 128, 255)
"""Largest code of the usual schemes: int4 symmetric, int4 full, uint4, and the same for 8 bits."""
COHERENT = 0.8
"""Mean phase coherence from which values count as lying on a lattice. Null: below .45 for groups of 32."""
_CONSTANT = 1e-12
"""Variance over squared peak below which values count as constant."""
_FEW_LEVELS = 0.5
"""Distinct over possible values, in the group that has most, up to which values count as few levels."""
_MAX_ROW_VALUES = 1024
_QUANTILES = np.linspace(0.0, 1.0, 9)


def sample_rows(rows: int, columns: int) -> int:
    """How many rows of a (rows x columns) matrix are sampled."""
    if rows * columns <= SAMPLE_ELEMENTS:
        return rows
    return min(rows, max(MIN_SAMPLE_ROWS, SAMPLE_ELEMENTS // max(1, columns)))


def quantiles(values: np.ndarray) -> np.ndarray:
    """Quantiles 0, 1/8 .. 1, float32 (9,); zeros for no values."""
    if values.size == 0:
        return np.zeros(9, dtype=np.float32)
    return np.quantile(values.astype(np.float64), _QUANTILES).astype(np.float32)


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
    peak = float(x.abs().max())
    scaled = x / peak if peak > 0 else x
    mean = float(scaled.mean(dtype=torch.float64))
    squares = (scaled - mean).square_()
    second = float(squares.mean(dtype=torch.float64))
    fourth = float(squares.square_().mean(dtype=torch.float64))
    kurtosis = fourth / second**2 - 3.0 if second > _CONSTANT else 0.0
    zeros = 1.0 - int(torch.count_nonzero(x)) / x.numel()
    return Statistics(norm, mean * peak, kurtosis, peak, zeros, rows, nonfinite)


def lattice(sample: np.ndarray) -> Lattice:
    """Look for few levels or even spacing in sampled rows.

    Counting distinct values finds anything with at most 6 bits and survives any cast. For 8 bits a group holds
    fewer values than levels, so the phase of ``value * level / largest`` decides: rounding to bfloat16 shifts a
    code c by at most c / 512 steps, which leaves the phases together.

    Args:
        sample: float32 (rows, n); the first rows are used.
    """
    rows = sample[: LATTICE_ROWS * 4 : 4] if sample.shape[0] >= LATTICE_ROWS * 4 else sample[:LATTICE_ROWS]
    evidence = np.full(9, np.nan, dtype=np.float32)
    if rows.size == 0:
        return Lattice(0, "", evidence)
    pooled = rows.reshape(-1)
    counts = {"tensor": _distinct(pooled[None, :]), "row": _distinct(rows)}
    coherence = {"row": _coherence(_evenly(rows, _MAX_ROW_VALUES))}
    for size in GROUP_SIZES:
        groups = _groups(rows, size)
        counts[f"group{size}"] = _distinct(groups)
        coherence[f"group{size}"] = _coherence(groups)
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
    """Most distinct non-zero values of a group, and the median share of distinct among its non-zero values."""
    if groups is None or groups.size == 0:
        return None
    most, shares = 0, []
    for group in groups:
        values = group[group != 0]
        if values.size * 2 < group.size or values.size < 16:
            continue
        distinct = np.unique(values).size
        most = max(most, distinct)
        shares.append(distinct / values.size)
    return (most, float(np.max(shares))) if shares else None


def _coherence(groups: np.ndarray | None) -> tuple[float, int] | None:
    """Best mean phase coherence over the levels, and the level; groups of under 16 non-zero values are skipped."""
    if groups is None or groups.size == 0:
        return None
    keep = (groups != 0).sum(axis=1) * 2 >= groups.shape[1]
    if groups.shape[1] < 16 or not keep.any():
        return None
    used = torch.from_numpy(np.ascontiguousarray(groups[keep]))
    weight = (used != 0).to(torch.float32)
    peak = used.abs().amax(dim=1, keepdim=True)
    best, level = 0.0, 0
    for candidate in LEVELS:
        phase = used / peak * (2 * torch.pi * candidate)
        real = (phase.cos() * weight).sum(1) / weight.sum(1)
        imaginary = (phase.sin() * weight).sum(1) / weight.sum(1)
        value = float(torch.hypot(real, imaginary).mean())
        if value > best:
            best, level = value, candidate
    return best, level


def _groups(rows: np.ndarray, size: int) -> np.ndarray | None:
    """Up to LATTICE_GROUPS aligned groups of ``size`` columns, spread over the sampled rows."""
    per_row = rows.shape[1] // size
    if per_row == 0:
        return None
    groups = rows[:, : per_row * size].reshape(-1, size)
    return np.asarray(groups[_spread(groups.shape[0], LATTICE_GROUPS)])


def _evenly(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows with at most ``count`` values, the largest of each row always among them."""
    if rows.shape[1] <= count:
        return rows
    picked = rows[:, _spread(rows.shape[1], count - 1)]
    peak = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.concatenate([picked, peak], axis=1)


def _spread(size: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, count)).round().astype(np.int64))
