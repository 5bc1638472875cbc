"""Vectors of a nameless candidate: gains and biases to the reference's slots, by values that no symmetry reorders away.

Vectors carry little information (2-weights section 6), so nothing is concluded from them; they only have to stand
where they belong for the matrices beside them to be undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import torch

from fingerprint.architecture.interface import Role, Slot, View

from .matching import assign
from .model import Canonical

Parts = tuple[tuple[Slot, View], ...]
"""Slots cut from one stored tensor, in row order."""


def place_vectors(
    stored: Mapping[Slot, torch.Tensor], reference: Canonical, taken: set[Slot], stretched: Mapping[int, int]
) -> dict[Slot, Parts]:
    """Vectors to stored vectors of the same length, by their sorted values: whatever the order of units or coordinates.

    Args:
        stored: The candidate's vectors that have no place yet.
        reference: Whose places they are given.
        taken: Slots of the reference that are filled.
        stretched: Own length to the reference's, where units were split or the vocabulary was padded.

    Returns:
        Own slot to the parts it holds.
    """
    wanted = _stored_vectors(reference, taken)
    places: dict[Slot, Parts] = {}
    for length in {len(t) for t in stored.values()}:
        there = stretched.get(length, length)
        fitting = [(p, v) for p, v in wanted if len(v) == there and (there == length or len(p) == 1)]
        goals, values = [p for p, _ in fitting], [v for _, v in fitting]
        free = [s for s, t in stored.items() if len(t) == length]
        if not goals:
            continue
        table = torch.stack([torch.stack([-_gap(stored[own], r) for own in free]) for r in values])
        flipped = table.shape[0] > table.shape[1]
        for i, j in enumerate(assign(table.T if flipped else table).tolist()):
            if j >= 0:
                goal, own = (goals[j], free[i]) if flipped else (goals[i], free[j])
                places[own] = goal
    return places


def _stored_vectors(reference: Canonical, taken: set[Slot]) -> list[tuple[Parts, torch.Tensor]]:
    by_tensor: dict[str, list[tuple[Slot, View]]] = {}
    for slot, view in reference.layout.slots.items():
        if len(view.shape) == 1 and slot not in taken and slot.role is not Role.OTHER and view.order is None:
            by_tensor.setdefault(view.tensor, []).append((slot, view))
    found = []
    for parts in by_tensor.values():
        parts.sort(key=lambda p: p[1].rows or (0, 0))
        found.append((tuple(parts), torch.cat([reference.tensors[s] for s, _ in parts])))
    return found


def _gap(c: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    if len(c) != len(r):
        c = torch.quantile(c, torch.linspace(0, 1, len(r)))
        r = r.sort().values
    as_is, in_order = (c - r).norm(), (c.sort().values - r.sort().values).norm()
    gap: torch.Tensor = torch.minimum(as_is, in_order) / r.norm().clamp_min(1e-12)
    return gap


def place_head_norms(stored: Mapping[Slot, torch.Tensor], reference: Canonical) -> dict[Slot, Slot]:
    """QK-norm gains to query and key of each layer, by their product: gains can be traded between the two.

    Which of a pair is the query's is told by its ratio to the reference's, which must be one number for both members
    of a frequency pair.
    """
    length = reference.layout.dims.head_dim
    free = [s for s, t in stored.items() if t.shape == (length,)]
    layers = sorted(s.layer for s in reference.tensors if s.role is Role.QUERY_NORM)
    options: list[tuple[float, int, Slot, Slot]] = []
    for layer in layers:
        q, k = (reference.tensors.get(Slot(role, layer)) for role in (Role.QUERY_NORM, Role.KEY_NORM))
        if q is None or k is None or q.shape != (length,) or k.shape != (length,):
            continue
        for a, b in permutations(free, 2):
            gap = float((stored[a] * stored[b] - q * k).norm() / (q * k).norm().clamp_min(1e-12))
            options.append((gap + 0.1 * _in_pair(stored[a], q), layer, a, b))
    placed: dict[Slot, Slot] = {}
    done: set[int] = set()
    for _, layer, a, b in sorted(options):
        if layer not in done and a not in placed and b not in placed:
            placed[a], placed[b] = Slot(Role.QUERY_NORM, layer), Slot(Role.KEY_NORM, layer)
            done.add(layer)
    return placed


def _in_pair(c: torch.Tensor, r: torch.Tensor) -> float:
    """How unequal the ratio is within frequency pairs."""
    ratio = c.abs().clamp_min(1e-6).log() - r.abs().clamp_min(1e-6).log()
    half = len(ratio) // 2
    return float((ratio[:half] - ratio[half : 2 * half]).square().mean().sqrt())
