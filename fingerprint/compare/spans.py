"""Attention matched matrix by matrix through the spans of its heads: for when names do not say what belongs together.

A matrix of the reference is looked for among all of the candidate's of its shape that have none yet, whatever role or
layer a recognition without names gave them; the best one-to-one assignment is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.optimize import linear_sum_assignment

from fingerprint.architecture.interface import Slot
from fingerprint.fingerprint import Fingerprint
from fingerprint.invariants.spans import SPANNED, distance

FAR = 1e3
"""Stands for pairs that cannot be compared."""


def match_spans(
    candidate: Fingerprint, reference: Fingerprint, ours: Iterable[Slot], theirs: Iterable[Slot]
) -> dict[Slot, tuple[Slot, float]]:
    """The candidate's matrix, and how far its spans are apart (relative), for each of the reference's.

    Args:
        candidate: Of the candidate.
        reference: Of the reference.
        ours: Slots of the candidate to choose from.
        theirs: Slots of the reference that are looked for.

    Returns:
        By reference slot; nothing where the two were looked at from different tokens.
    """
    if candidate.meta.token_bases[:1] != reference.meta.token_bases[:1]:
        return {}
    wanted = [s for s in theirs if _kept(reference, s)]
    offered = [s for s in ours if _kept(candidate, s)]
    if not wanted or not offered:
        return {}
    cost = np.array([[_distance(candidate, c, reference, r) for c in offered] for r in wanted])
    rows, columns = linear_sum_assignment(np.minimum(cost, FAR))
    return {wanted[i]: (offered[j], float(cost[i, j])) for i, j in zip(rows, columns, strict=True) if cost[i, j] < FAR}


def _kept(model: Fingerprint, slot: Slot) -> Mapping[str, np.ndarray]:
    layer = model.layers.get(slot.layer)
    return {} if layer is None or slot.role not in SPANNED else layer.spans.get(slot.role, {})


def _distance(candidate: Fingerprint, c: Slot, reference: Fingerprint, r: Slot) -> float:
    if candidate.slots[c].shape != reference.slots[r].shape:
        return FAR
    return distance(_kept(candidate, c), _kept(reference, r), r.role)
