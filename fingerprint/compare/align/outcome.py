"""What alignment amounts to: pairs of tensors, how close they are, and which of them are believed to be the same."""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import Layout, Slot

from .alignment import Alignment, Witness
from .constants import formulaic
from .matching import cosine, relative, row_cosines
from .model import Canonical
from .side import Side

NULL_IDENTITY = 0.5
"""Cosine that unrelated matrices may reach as they lie: one seed alone leaves .2 to .6 after short training (spaCy)."""

NULL_UNDONE = 0.5
"""The same after matching units, heads or a basis: independents reach .47 (2-weights section 4)."""

_FEW_VALUES = 4096
_FEW_ROWS = 8
_EQUAL = 1e-3
_EQUAL_VALUES = 64
_SUPPORT = 0.3


def outcome(
    candidate: Canonical,
    reference: Canonical,
    sides: tuple[Side, Side],
    transforms: set[str],
    layer_map: dict[int, int],
    dropped: tuple[Slot, ...],
    witness: Witness,
) -> Alignment:
    """Pair what is left and say how well it fits."""
    c, r = sides
    paired = sorted(s for s in r.tensors if s in c.tensors and c.tensors[s].shape == r.tensors[s].shape)
    back = {j: i for i, j in layer_map.items()}
    for slot in paired:
        witness.residuals[slot] = relative(c.tensors[slot], r.tensors[slot])
        own = slot._replace(layer=back.get(slot.layer, slot.layer))
        x, y = candidate.tensors.get(own), reference.tensors.get(slot)
        if x is not None and y is not None and x.shape == y.shape:
            witness.before[slot] = relative(x, y)
    matched = _matched(c, r, paired, witness)
    if _renamed(candidate.layout, reference.layout, matched, layer_map):
        transforms = transforms | {"renamed"}
    lost = [s for s in c.tensors if s not in matched]
    return Alignment(
        aligned={s: c.tensors[s] for s in paired},
        reference={s: r.tensors[s] for s in paired},
        transforms=tuple(sorted(transforms)) if matched else (),
        layer_map=layer_map,
        matched=matched,
        unmatched_candidate=tuple(sorted([s._replace(layer=back.get(s.layer, s.layer)) for s in lost] + list(dropped))),
        unmatched_reference=tuple(sorted(s for s in r.tensors if s not in matched)),
        witness=witness,
    )


def _matched(c: Side, r: Side, paired: list[Slot], witness: Witness) -> dict[Slot, float]:
    """Confidence per slot: cosine above what unrelated tensors reach; small tensors follow the matrices beside them.

    LayerNorm gains and biases reach .3 to .99 by chance (2-weights section 6), so they never speak for themselves,
    unless they are equal and no formula gives them. Of matrices the median row counts too: with one seed, rows that
    training never touched stay equal in models that share nothing else.
    """
    moved = bool(witness.rotation is not None or witness.permutations or witness.mixings)
    null = NULL_UNDONE if moved else NULL_IDENTITY
    found: dict[Slot, float] = {}
    near: dict[int, list[float]] = {}
    for slot in paired:
        x, y = c.tensors[slot], r.tensors[slot]
        if _small(y):
            continue
        confidence = max(0.0, (_likeness(x, y) - null) / (1.0 - null))
        confidence = 0.0 if confidence > 0 and formulaic(y) else confidence
        near.setdefault(slot.layer, []).append(confidence)
        if confidence > 0:
            found[slot] = confidence
    everything = [v for values in near.values() for v in values]
    for slot in paired:
        x, y = c.tensors[slot], r.tensors[slot]
        if not _small(y):
            continue
        beside = sorted(near.get(slot.layer, everything) or everything)
        support = beside[len(beside) // 2] if beside else 0.0
        if support > _SUPPORT and (cosine(x, y) > null or (float(x.norm()) == 0 and float(y.norm()) == 0)):
            found[slot] = support
        elif y.numel() >= _EQUAL_VALUES and relative(x, y) < _EQUAL and not formulaic(y):
            found[slot] = 1.0
    return found


def _likeness(x: torch.Tensor, y: torch.Tensor) -> float:
    """Cosine of two matrices, or of their median row where that is lower."""
    whole = cosine(x, y)
    if whole <= 0.0 or y.shape[0] < _FEW_ROWS:
        return whole
    rows = row_cosines(x.reshape(x.shape[0], -1), y.reshape(y.shape[0], -1))
    return min(whole, float(rows.median()))


def _small(x: torch.Tensor) -> bool:
    return x.ndim < 2 or x.numel() < _FEW_VALUES


def _renamed(c: Layout, r: Layout, matched: dict[Slot, float], layer_map: dict[int, int]) -> bool:
    """Whether matched slots live under other names in the files."""
    back = {j: i for i, j in layer_map.items()}
    for slot in matched:
        own = slot._replace(layer=back.get(slot.layer, slot.layer))
        if (
            own in c.slots
            and slot in r.slots
            and own.layer == slot.layer
            and c.slots[own].tensor != r.slots[slot].tensor
        ):
            return True
    return False
