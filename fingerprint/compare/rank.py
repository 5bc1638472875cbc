"""Which of many known models is the nearest? A distance on fingerprints, cheap enough for every retrieved candidate.

Squared relative distances over tensors in one basis add up, and noise that a copier draws is nearly orthogonal to the
difference between two known siblings, so even parents that differ by a small reward-driven update are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from fingerprint.architecture.interface import Slot
from fingerprint.compare.kinship import kinship
from fingerprint.compare.sketch import correspond, sketches
from fingerprint.fingerprint import Fingerprint

APART = 2.0
"""Squared relative distance of a tensor with no counterpart: that of two unrelated tensors of equal norm."""


def distance(candidate: Fingerprint, reference: Fingerprint) -> float:
    """Mean squared relative distance over the reference's matrices, 0 (same values) to 2 (nothing in common)."""
    pairs = correspond(candidate, reference)
    ours, theirs = sketches(candidate, reference, pairs)
    matrices = {s: k for s, k in reference.slots.items() if len(k.shape) >= 2}
    total = sum(k.numel for k in matrices.values())
    if total == 0:
        return APART
    score = 0.0
    left: dict[Slot, int] = {}
    for slot, sketch in matrices.items():
        size = float((theirs[slot] ** 2).sum()) if slot in pairs else 0.0
        if size > 0.0:
            score += sketch.numel * min(float(((ours[slot] - theirs[slot]) ** 2).sum()) / size, APART)
        else:
            left[slot] = sketch.numel
    if sum(left.values()) > 0.05 * total:
        return (score + _by_kinship(candidate, reference, left)) / total
    return (score + APART * sum(left.values())) / total


def _by_kinship(candidate: Fingerprint, reference: Fingerprint, left: dict[Slot, int]) -> float:
    """Distance of what has no counterpart in one basis, through invariants."""
    kin = kinship(candidate, reference)
    layers = {k.reference: k for k in kin.layers}
    score = 0.0
    for slot, numel in left.items():
        layer = slot.layer
        if layer >= 0:
            found = layers.get(layer)
            score += numel * (APART if found is None else min(found.size**2 + (1.0 - found.fraction) * 0.1, APART))
        else:
            score += numel * (min(kin.token_shift**2, APART) if kin.embedded else APART)
    return score


def nearest(candidate: Fingerprint, known: Sequence[Fingerprint]) -> list[tuple[int, float]]:
    """Indices into ``known`` with their distances, nearest first; ties keep the given order (earliest claim first)."""
    return sorted(((i, distance(candidate, k)) for i, k in enumerate(known)), key=lambda pair: pair[1])
