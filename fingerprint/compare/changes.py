"""Names for changes that carry no learning: quantised, pruned, sparse, low-rank (design 2-weights, section 5).

Each test looks at one matrix of the candidate and the matching one of the reference and is exact about what it
claims: a lattice is found by reproducing it from the reference, pruning by zeros at the smallest magnitudes.
Naming a change is description; whether it is a copy is decided by ``structure`` and ``decide``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch

FIRST_ROWS, PROMISING = 4, 0.8
"""Rows on which every scheme is tried first, and what it must reproduce there to be tried on more."""

SAMPLE_ROWS = 64
"""Rows looked at when a lattice is tried; schemes act row by row or group by group, so any rows will do."""

REPRODUCED = 0.97
"""Fraction of entries a scheme must reproduce exactly. Rounding ties and a scale stored in fp16 explain the rest."""

GROUPS = (32, 64, 128)


def quantised(candidate: torch.Tensor, reference: torch.Tensor, *, dtype: torch.dtype) -> str | None:
    """The quantise-dequantise scheme that turns ``reference`` into ``candidate``, e.g. ``int8``; None if none does.

    Args:
        candidate: (m x n) values as stored, float32.
        reference: (m x n), float32.
        dtype: Storage dtype of the candidate: schemes are rounded to it before comparison.
    """
    if candidate.ndim != 2 or torch.equal(candidate, reference):
        return None
    peak = float(reference.abs().max())
    few = max(1, candidate.shape[0] // FIRST_ROWS)
    likely = {
        i
        for i, (_, made) in enumerate(_schemes(reference[::few], peak))
        if _reproduced(made, candidate[::few], dtype) >= PROMISING
    }
    if not likely:
        return None
    step = max(1, candidate.shape[0] // SAMPLE_ROWS)
    best: tuple[float, str | None] = (REPRODUCED, None)
    for i, (name, made) in enumerate(_schemes(reference[::step], peak)):
        same = _reproduced(made, candidate[::step], dtype) if i in likely else 0.0
        if same > best[0] or (same == best[0] and best[1] is None):
            best = (same, name)
    return best[1]


def _reproduced(made: torch.Tensor, candidate: torch.Tensor, dtype: torch.dtype) -> float:
    """Fraction of entries that a scheme reproduces, up to one rounding of ``dtype``."""
    room = made.abs().amax() * 1e-6 + candidate.abs() * _EPS.get(dtype, 1e-6)
    return float(((made.to(dtype).float() - candidate).abs() <= room).float().mean())


CASTS = {"f16": (torch.float16,), "bf16": (torch.bfloat16,), "f16-bf16": (torch.float16, torch.bfloat16)}


def cast(candidate: torch.Tensor, reference: torch.Tensor) -> str | None:
    """The dtype through which ``reference`` was rounded to give ``candidate``, entry by entry; None if none does."""
    for name, dtypes in CASTS.items():
        x = reference
        for dtype in dtypes:
            x = x.to(dtype)
        if torch.equal(x.float(), candidate.float()):
            return name.split("-")[0]
    return None


MOVED = 0.9
"""Share of all entries that moved, or should have, that must be what a formula gives, for it to be the formula."""


def computed(candidate: torch.Tensor, reference: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the candidate is ``exact``, rounded to ``dtype``.

    Only entries count that differ from the reference in one of the two: a light update leaves most values alone, as
    a small step does, and would agree with it there.

    Args:
        candidate: float32, as stored.
        reference: float32.
        exact: float64 what a formula gives.
        dtype: What it was stored as.
    """
    made = exact.to(dtype).to(candidate.dtype)
    moved = (candidate != reference) | (made != reference)
    room = candidate.abs() * (0.0 if dtype is torch.bfloat16 or dtype is torch.float16 else 1e-6)
    agree = ((candidate - made).abs() <= room) & moved
    least = LEAST_MOVED if candidate.numel() > SMALL else 1
    return int(moved.sum()) >= least and float(agree.sum()) >= MOVED * float(moved.sum())


LEAST_MOVED, SMALL = 8, 4096
"""Entries that must have moved for a formula to be believed; in norms and biases, which go with the rest, one does."""


def step_between(
    candidate: torch.Tensor, reference: torch.Tensor, base: torch.Tensor, toward: float, dtype: torch.dtype
) -> bool:
    """Whether the candidate is the reference plus a multiple of its own change from the base, and only rounded.

    Rounding eats a small part of such a step, which biases ``toward``; multiples near it are tried on a part.

    Args:
        candidate: (m x n) float32.
        reference: (m x n) float32.
        base: (m x n) float32.
        toward: The multiple, as fitted.
        dtype: What the candidate was stored as.
    """
    few = slice(None, None, max(1, candidate.numel() // STEP_SAMPLE))
    c, r = candidate.flatten()[few], reference.flatten()[few]
    own = r.double() - base.flatten()[few].double()
    moved = c != r
    large = moved & (own.abs() >= own.abs()[moved].quantile(0.9)) if moved.any() else moved
    ratio = float(((c - r)[large].double() / own[large]).median()) if large.any() else toward
    tries = range(-STEP_TRIES, STEP_TRIES + 1)
    factors = [t * (1.0 + k * width) for t in (toward, ratio) for width in STEP_WIDTHS for k in tries]
    return any(computed(c, r, r.double() + t * own, dtype) for t in factors)


STEP_SAMPLE, STEP_TRIES, STEP_WIDTHS = 1 << 16, 12, (0.0005, 0.005)
"""Entries looked at, and multiples tried around the fitted one: closely, since a long step is fitted closely and must
be met closely, and within 6%, since rounding eats that much of a short one."""


_EPS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def _symmetric(x: torch.Tensor, top: int) -> torch.Tensor:
    return _round(x, x.abs().amax(-1, keepdim=True) / top, top)


def _schemes(r: torch.Tensor, peak: float) -> Iterator[tuple[str, torch.Tensor]]:
    """Every scheme that is tried, with its result on rows ``r``."""
    row = r.abs().amax(1, keepdim=True)
    for bits in (8, 6, 4, 3):
        top = 2 ** (bits - 1) - 1
        yield f"int{bits}", _round(r, row / top, top)
        yield f"int{bits}", _round(r, torch.full_like(row, peak / top), top)
        yield f"int{bits}", _affine(r, bits)
        yield from _grouped(r, f"int{bits}", partial(_symmetric, top=top))
        yield from _grouped(r, f"int{bits}", partial(_affine, bits=bits))
    yield "fp8", r.clamp(-448, 448).to(torch.float8_e4m3fn).float()
    yield "fp8", (r / (row / 448)).clamp(-448, 448).to(torch.float8_e4m3fn).float() * (row / 448)
    if peak > 0:
        scaled = (r / (peak / 448)).clamp(-448, 448).to(torch.float8_e4m3fn).float()
        yield "fp8", scaled * (peak / 448)
        yield "fp8", r.to(torch.float8_e5m2).float()
    yield from _grouped(r, "nf4", _nf4)


def _grouped(
    r: torch.Tensor, name: str, scheme: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    for group in GROUPS:
        if r.shape[1] % group == 0 and r.shape[1] > group:
            parts = r.reshape(r.shape[0], -1, group)
            yield name, scheme(parts).reshape(r.shape)
    if r.shape[1] in GROUPS and name == "nf4":
        yield name, scheme(r)


def _round(x: torch.Tensor, scale: torch.Tensor, top: int) -> torch.Tensor:
    scale = scale.clamp_min(1e-30)
    return (x / scale).round().clamp(-top - 1, top) * scale


def _affine(x: torch.Tensor, bits: int) -> torch.Tensor:
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    scale: torch.Tensor = ((high - low) / (2**bits - 1)).clamp_min(1e-30)
    zero = (-low / scale).round()
    codes: torch.Tensor = ((x / scale).round() + zero).clamp(0, 2**bits - 1) - zero
    return codes * scale


NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""Code book of QLoRA (Dettmers et al. 2023, appendix E)."""


def _nf4(x: torch.Tensor) -> torch.Tensor:
    book: torch.Tensor = torch.tensor(NF4)
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    middle = (book[1:] + book[:-1]) / 2
    codes: torch.Tensor = book[torch.bucketize((x / scale).contiguous(), middle)]
    return codes * scale


LATTICE_CODES = {"int4": 16, "int8": 256}


def lattice(candidate: torch.Tensor) -> str | None:
    """Whether the candidate's own values lie on a coarse lattice, whatever the reference (noise, then rounding).

    Counts distinct values in rows: at most 2^b in a row far longer than that. Rows shorter than 4 x 2^b say nothing.
    """
    if candidate.ndim != 2:
        return None
    rows = candidate[:: max(1, candidate.shape[0] // 16)]
    n = candidate.shape[1]
    counts = [int(torch.unique(row).numel()) for row in rows]
    typical = sorted(counts)[len(counts) // 2]
    if n >= 64 and typical <= 16:
        return "int4"
    if n >= 1024 and typical <= 256:
        return "int8"
    return None


def pruned(candidate: torch.Tensor, reference: torch.Tensor) -> float | None:
    """Fraction of entries zeroed because they were the reference's smallest; None when zeros ignore magnitude."""
    zeroed = (candidate == 0) & (reference != 0)
    count = int(zeroed.sum())
    if count < max(8, reference.numel() // 500):
        return None
    gone, kept = reference.abs()[zeroed], reference.abs()[~zeroed & (reference != 0)]
    if kept.numel() == 0:
        return None
    cut = float(torch.quantile(_thin(gone), 0.98))
    below = float((kept < cut).float().mean())
    return count / reference.numel() if below < 0.05 else None


def _thin(x: torch.Tensor, limit: int = 1_000_000) -> torch.Tensor:
    """An even sample small enough for torch.quantile (which refuses more than 2^24 values)."""
    return x if x.numel() <= limit else x[:: math.ceil(x.numel() / limit)]


def numerical_rank(delta: torch.Tensor, *, energy: float = 0.9) -> int:
    """Smallest number of singular values that hold ``energy`` of the delta's energy (Gram of the shorter side)."""
    d = delta if delta.shape[0] <= delta.shape[1] else delta.T
    values = torch.linalg.eigvalsh(d.double() @ d.double().T).flip(0).clamp_min(0)
    total = float(values.sum())
    if total <= 0:
        return 0
    return int((torch.cumsum(values, 0) < energy * total).sum()) + 1
