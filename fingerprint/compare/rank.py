"""Which of many known models is the nearest? A distance on fingerprints, cheap enough for every retrieved candidate.

Squared relative distances over tensors in one basis add up, and noise that a copier draws is nearly orthogonal to the
difference between two known siblings, so even parents that differ by a small reward-driven update are told apart. Every
known model must be measured by the same tensors, else one would win by what it lacks: tensors that correspond for all
that correspond at all, and invariants only where a change of gauge left too few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fingerprint.architecture.interface import Slot
from fingerprint.compare.correspond import Pair, correspond, grids, projections
from fingerprint.compare.kinship import matched_layers, token_shift
from fingerprint.fingerprint import Fingerprint

APART = 2.0
"""Squared relative distance of a tensor with no counterpart: that of two unrelated tensors of equal norm."""

ENOUGH = 0.1
"""Share of the parameters in one basis from which they alone decide between models that share them."""


def distance(candidate: Fingerprint, reference: Fingerprint) -> float:
    """Mean squared relative distance over the reference's matrices, 0 (same values) to 2 (nothing in common).

    To choose among many, ``nearest`` is sharper: it measures all of them by the same tensors.
    """
    sizes = {s: x.numel for s, x in reference.slots.items() if len(x.shape) >= 2}
    return _whole(candidate, reference, _distances(candidate, reference, correspond(candidate, reference)), sizes)


def nearest(candidate: Fingerprint, known: Sequence[Fingerprint]) -> list[tuple[int, float]]:
    """Indices into ``known`` with their distances, nearest first; ties keep the given order (earliest claim first)."""
    paired = [_distances(candidate, k, correspond(candidate, k)) for k in known]
    sizes = [{s: x.numel for s, x in k.slots.items() if len(x.shape) >= 2} for k in known]
    shared = _shared(paired, sizes)
    scores = []
    for reference, distances, size in zip(known, paired, sizes, strict=True):
        if shared and shared <= set(distances):
            scores.append(sum(size[s] * distances[s] for s in shared) / sum(size[s] for s in shared))
        else:
            scores.append(_whole(candidate, reference, distances, size))
    return sorted(enumerate(scores), key=lambda pair: pair[1])


def _shared(paired: Sequence[Mapping[Slot, float]], sizes: Sequence[Mapping[Slot, int]]) -> set[Slot]:
    """Slots in one basis with the candidate in every model that has enough of them; none when that is too little."""
    enough = [
        set(distances)
        for distances, size in zip(paired, sizes, strict=True)
        if sum(size[s] for s in distances) > ENOUGH * sum(size.values()) > 0
    ]
    if not enough:
        return set()
    common = set.intersection(*enough)
    weights = next(size for d, size in zip(paired, sizes, strict=True) if common <= set(d))
    return common if sum(weights.get(s, 0) for s in common) > ENOUGH * sum(weights.values()) else set()


def _distances(candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair]) -> dict[Slot, float]:
    """Squared relative distance of every matrix in one basis."""
    ours, theirs = projections(candidate, reference, pairs)
    found: dict[Slot, float] = {}
    for slot, pair in pairs.items():
        if len(reference.slots[slot].shape) < 2:
            continue
        x, y = (ours[slot], theirs[slot]) if pair.projected else grids(candidate, reference, pair)
        size = float((y**2).sum())
        if size > 0.0:
            found[slot] = min(_fitted(x, y) / size, APART)
    return found


def _fitted(x: np.ndarray, y: np.ndarray) -> float:
    """Squared distance after the best common factor: scaling says nothing about whose weights these are."""
    energy = float((x * x).sum())
    factor = float((x * y).sum()) / energy if energy > 0 else 0.0
    return float(((factor * x - y) ** 2).sum())


def _whole(
    candidate: Fingerprint, reference: Fingerprint, distances: Mapping[Slot, float], sizes: Mapping[Slot, int]
) -> float:
    """Distance over all matrices, what has no counterpart in one basis through invariants."""
    total = sum(sizes.values())
    if total == 0:
        return APART
    score = sum(sizes[s] * distances[s] for s in distances)
    left = {s: n for s, n in sizes.items() if s not in distances}
    if left:
        layers = matched_layers(candidate, reference)
        correlation, shift = token_shift(candidate, reference)
        for slot, numel in left.items():
            if slot.layer >= 0:
                found = layers.get(slot.layer)
                score += numel * (APART if found is None else min(found[2] ** 2 + 0.1 * (1.0 - found[1]), APART))
            else:
                score += numel * (min(shift**2, APART) if correlation >= 0.9 else APART)
    return score / total
