"""Matching rows to rows: the step that every permutation is undone with.

Rows are compared by cosine. Mutual nearest neighbours are fixed first; what is left goes to the Hungarian method, so
that the result is one to one. Above some thousand dimensions rows are projected first (Johnson-Lindenstrauss), so
that cost grows with n^2, not with n^2 d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment

_TINY = 1e-30
_BLOCK = 2048
_PROJECTED = 512
_EXACT_FLOPS = 2e10
_HUNGARIAN_MOST = 4096
_WORTH_COMPLETING = 0.4
"""Mutual neighbours below which rows are unrelated (.22 in independents); assigning the rest is cubic, for nothing."""


@dataclass(frozen=True)
class Match:
    """One-to-one matching of reference rows.

    Attributes:
        order: (n_reference,) int64, candidate row of each reference row; -1 where there is none.
        score: (n_reference,) cosine of each pair; 0 where there is none.
        mutual: Fraction of the smaller side that were mutual nearest neighbours.
    """

    order: torch.Tensor
    score: torch.Tensor
    mutual: float


def normalised(x: torch.Tensor) -> torch.Tensor:
    """Rows of unit length; zero rows stay zero."""
    norms = x.norm(dim=1, keepdim=True)
    return torch.where(norms > 0, x / norms.clamp_min(_TINY), torch.zeros_like(x))


def row_cosines(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Cosine of row i of ``a`` with row i of ``b``, (n,); 0 where either is zero."""
    dots = torch.linalg.vecdot(a, b)
    norms = a.norm(dim=1) * b.norm(dim=1)
    return torch.where(norms > 0, dots / norms.clamp_min(_TINY), torch.zeros_like(dots))


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Cosine of two tensors of one shape; 0 where either is zero."""
    x, y = a.reshape(-1), b.reshape(-1)
    if a is b or torch.equal(x, y):
        return float(bool(x.any()))
    norms = float(x.norm()) * float(y.norm())
    return float(x @ y) / norms if norms > 0 else 0.0


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    """|a - b| / |b|; 0 if both are zero, inf if only ``b`` is."""
    if torch.equal(a, b):
        return 0.0
    gap, size = float((a - b).norm()), float(b.norm())
    if size > 0:
        return gap / size
    return 0.0 if gap == 0 else float("inf")


def nearest(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Nearest neighbours by cosine in both directions, in blocks of rows.

    Args:
        a: (n, d).
        b: (m, d).

    Returns:
        (index into ``b`` of each row of ``a``, its cosine, index into ``a`` of each row of ``b``).
    """
    x, y = normalised(a), normalised(b)
    if x.shape[1] > _PROJECTED and float(x.shape[0]) * y.shape[0] * x.shape[1] > _EXACT_FLOPS:
        g = torch.randn(x.shape[1], _PROJECTED, generator=torch.Generator().manual_seed(0))
        x, y = normalised(x @ g), normalised(y @ g)
    best_b = torch.full((y.shape[0],), -2.0)
    arg_b = torch.zeros(y.shape[0], dtype=torch.int64)
    best_a, arg_a = [], []
    for start in range(0, x.shape[0], _BLOCK):
        block = x[start : start + _BLOCK] @ y.T
        value, index = block.max(dim=1)
        best_a.append(value)
        arg_a.append(index)
        value, index = block.max(dim=0)
        better = value > best_b
        best_b = torch.where(better, value, best_b)
        arg_b = torch.where(better, index + start, arg_b)
    return torch.cat(arg_a), torch.cat(best_a), arg_b


def match_rows(candidate: torch.Tensor, reference: torch.Tensor, *, complete: bool = True) -> Match:
    """Match rows one to one by cosine.

    Args:
        candidate: (n, d).
        reference: (m, d).
        complete: Also assign what is left after mutual nearest neighbours, where these are not too few.

    Returns:
        Match over the m reference rows; if n < m, some are -1.
    """
    to_candidate, _, to_reference = nearest(reference, candidate)
    rows = torch.arange(reference.shape[0])
    mutual = to_reference[to_candidate] == rows
    order = torch.where(mutual, to_candidate, torch.full_like(to_candidate, -1))
    used = torch.zeros(candidate.shape[0], dtype=torch.bool)
    used[order[mutual]] = True
    if complete and float(mutual.sum()) >= _WORTH_COMPLETING * min(candidate.shape[0], reference.shape[0]):
        _assign_rest(candidate, reference, order, used)
    found = order >= 0
    score = torch.zeros(reference.shape[0])
    score[found] = row_cosines(candidate[order[found]], reference[found])
    fraction = float(mutual.sum()) / max(1, min(candidate.shape[0], reference.shape[0]))
    return Match(order, score, fraction)


def _assign_rest(candidate: torch.Tensor, reference: torch.Tensor, order: torch.Tensor, used: torch.Tensor) -> None:
    """Give the rows that have no mutual nearest neighbour the best of what is left, in place."""
    rest = torch.nonzero(order < 0).flatten()[:_HUNGARIAN_MOST]
    free = torch.nonzero(~used).flatten()[:_HUNGARIAN_MOST]
    if not len(rest) or not len(free):
        return
    similarity = normalised(reference[rest]) @ normalised(candidate[free]).T
    rows, columns = linear_sum_assignment(similarity.numpy(), maximize=True)
    order[rest[torch.from_numpy(rows)]] = free[torch.from_numpy(columns)]


def assign(similarity: torch.Tensor) -> torch.Tensor:
    """Best one-to-one assignment of a small (m, n) similarity, m <= n: the column of each row."""
    rows, columns = linear_sum_assignment(similarity.numpy(), maximize=True)
    order = torch.full((similarity.shape[0],), -1, dtype=torch.int64)
    order[torch.from_numpy(rows)] = torch.from_numpy(columns)
    return order
