"""Do low-rank changes of different matrices point the same way in the stream they share?

Everything that was trained on one loss sees the same inputs and the same gradients, so changes of matrices that read
the stream overlap in what they read, and changes of those that write it in what they write. A random adapter overlaps
no more than chance. An adapter learns one side first (the other stays near its random start), so the larger side
counts. A copier who knows this can share one random factor; that evades detection, and accuses nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.evidence import SlotChange
from fingerprint.compare.gridded import UNSETTLED
from fingerprint.compare.regress import project

READERS = (Role.QUERY, Role.KEY, Role.VALUE, Role.GATE, Role.UP)
WRITERS = (Role.OUT, Role.DOWN)

LOW_RANK = 0.35
"""Numerical rank on the grid, as a fraction of its side, up to which a change may be an adapter."""

LEAST_PAIRS = 6
"""Pairs of matrices that an overlap is worth judging on."""

SWEEPS = 3
"""Alternating scalings of rows and columns to equal energy: energy inherited from the weights overlaps by itself."""


def low_rank(changes: Sequence[SlotChange]) -> bool:
    """Whether the changed matrices are changed by something of low rank, and by nothing else."""
    if any(c.kind is not None for c in changes):
        return False
    moved = [c for c in changes if c.residual > 0.0]
    if 2 * sum(c.channel == UNSETTLED for c in moved) > len(moved):
        return False  # so few values changed that any change has low rank
    ranks = [c.rank for c in moved if c.rank < 1.0]
    return bool(ranks) and float(np.median(ranks)) <= LOW_RANK


def overlap(
    ours: Mapping[Slot, np.ndarray], theirs: Mapping[Slot, np.ndarray], before: Mapping[Slot, np.ndarray],
    changes: Sequence[SlotChange],
) -> tuple[float, float] | None:  # fmt: skip
    """Mean z of the overlap of readers' and of writers' changes; None with too few of either.

    Args:
        ours: Linear sketches of the candidate by reference slot, float64.
        theirs: Of the reference.
        before: Of their base; empty without one.
        changes: What changed at all.
    """
    moved = {c.slot for c in changes if c.residual > 0.0}
    deltas = {s: _remainder(ours[s], theirs[s], before.get(s)) for s in ours if s in moved and ours[s].ndim == 2}
    found = []
    for roles, turned in ((READERS, False), (WRITERS, True)):
        members = [(s, x.T if turned else x) for s, x in deltas.items() if s.role in roles]
        scores = [_z(_even(a), _even(b)) for (s, a), (t, b) in combinations(members, 2) if abs(s.layer - t.layer) <= 1]
        if len(scores) < LEAST_PAIRS:
            return None
        found.append(float(np.mean(scores)))
    return found[0], found[1]


def _remainder(c: np.ndarray, r: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    directions = [torch.from_numpy(r)] + ([torch.from_numpy(r - b)] if b is not None and b.shape == r.shape else [])
    return np.asarray(project(torch.from_numpy(c - r), directions).residual.numpy())


def _even(x: np.ndarray) -> np.ndarray:
    """Rows and columns of equal energy."""
    out = x.copy()
    for _ in range(SWEEPS):
        for axis in (0, 1):
            size = np.sqrt((out**2).mean(axis=axis, keepdims=True))
            out = out / np.where(size > 0, size, 1.0)
    return out


def _z(a: np.ndarray, b: np.ndarray) -> float:
    """Overlap n |A B^T|^2 / (|A|^2 |B|^2) less 1, over its standard deviation sqrt(2 / (r_A r_B)) under chance."""
    if a.shape[1] != b.shape[1]:
        return 0.0
    first, second = a.T @ a, b.T @ b
    scale = float(np.trace(first) * np.trace(second))
    if scale <= 0.0:
        return 0.0
    value = a.shape[1] * float((first * second).sum()) / scale
    ranks = [float(np.trace(g)) ** 2 / float((g * g).sum()) for g in (first, second)]
    return float((value - 1.0) / np.sqrt(2.0 / (ranks[0] * ranks[1])))
