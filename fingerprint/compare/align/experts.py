"""Mixture experts: which expert is which, by router row, borne out by gate rows."""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import SHARED_EXPERT, Role, Slot

from .alignment import Witness
from .matching import assign, cosine, match_rows, nearest, row_cosines
from .side import Side
from .units import align_units

_SAME_ROUTE = 0.8
_SAME_UNITS = 0.6
_SAMPLE = 32
_IN_EXPERT = frozenset({Role.GATE, Role.UP, Role.DOWN, Role.GATE_BIAS, Role.UP_BIAS, Role.DOWN_BIAS})


def align_experts(candidate: Side, reference: Side, layer: int, witness: Witness) -> set[str]:
    """Undo a permutation of experts and router rows in one layer, in place on the candidate.

    Returns:
        Transforms undone.
    """
    slot = Slot(Role.ROUTER, layer)
    if slot not in candidate.tensors or slot not in reference.tensors:
        return set()
    c, r = candidate.reader(slot), reference.reader(slot)
    if c.shape != r.shape or float(row_cosines(c, r).min()) > _SAME_ROUTE:
        return set()
    order = match_rows(c, r).order
    if bool((order < 0).any()):
        order = torch.arange(len(order))
    if _in_place(candidate, reference, layer) and float(row_cosines(c[order], r).median()) > _SAME_ROUTE:
        candidate.tensors[slot] = candidate.tensors[slot][order]
        witness.permutations[f"experts:{layer}"] = order
        return {"permuted:experts"}
    if float(row_cosines(c[order], r).median()) < _SAME_ROUTE or not _borne_out(candidate, reference, layer, order):
        order = _by_units(candidate, reference, layer)
    if bool((order == torch.arange(len(order))).all()) or not _borne_out(candidate, reference, layer, order):
        return set()
    _reorder(candidate, layer, order)
    witness.permutations[f"experts:{layer}"] = order
    return {"permuted:experts"}


def unify_experts(candidate: Side, reference: Side, layer: int, witness: Witness) -> set[str]:
    """Put a dense MLP together again that was written as equal experts, in place on the candidate.

    Sparse upcycling (arXiv 2212.05055) with nothing trained after it: with any router the weights sum to one. Each
    expert is aligned with the reference's MLP first, so that they may be disguised one by one.
    """
    dense = [s for s in reference.tensors if s.layer == layer and s.expert < 0 and s.role in _IN_EXPERT]
    numbers = sorted({s.expert for s in candidate.tensors if s.layer == layer and 0 <= s.expert < SHARED_EXPERT})
    if not dense or not numbers or any(s.layer == layer and s.expert >= 0 for s in reference.tensors):
        return set()
    done: set[str] = set()
    parts: list[dict[Slot, torch.Tensor]] = []
    for expert in numbers:
        own = {s: candidate.tensors.get(s._replace(expert=expert)) for s in dense}
        alone = Side(candidate.layout, {s: x for s, x in own.items() if x is not None})
        norm = candidate.norm_slot(Slot(Role.UP, layer, expert))
        alone.tensors |= {} if norm is None else {norm: candidate.tensors[norm]}
        words = align_units(alone, reference, layer, -1, Witness())
        fits = [s for s in dense if s in alone.tensors and alone.tensors[s].shape == reference.tensors[s].shape]
        if len(fits) < len(dense) or min(cosine(alone.tensors[s], reference.tensors[s]) for s in dense) < _SAME_UNITS:
            return set()
        done |= words
        parts.append({s: alone.tensors[s] for s in dense})
    for slot in dense:
        candidate.tensors[slot] = torch.stack([part[slot] for part in parts]).mean(dim=0)
    gone = [s for s in candidate.tensors if s.layer == layer and 0 <= s.expert < SHARED_EXPERT]
    for slot in [*gone, Slot(Role.ROUTER, layer)]:
        candidate.tensors.pop(slot, None)
    witness.evidence[f"experts:{layer}"] = float(len(numbers))
    return done | {"upcycled:experts"}


def _likeness(candidate: Side, reference: Side, c: Slot, r: Slot) -> float:
    """Median cosine of sampled gate rows with their nearest in the other expert."""
    if c not in candidate.tensors or r not in reference.tensors:
        return 0.0
    rows = candidate.reader(c)[:_SAMPLE]
    return float(nearest(rows, reference.reader(r))[1].median())


def _borne_out(candidate: Side, reference: Side, layer: int, order: torch.Tensor) -> bool:
    """Whether most experts' gate rows agree with this order."""
    scores = [
        _likeness(candidate, reference, Slot(Role.GATE, layer, int(i)), Slot(Role.GATE, layer, j))
        for j, i in enumerate(order.tolist())
    ]
    return bool(torch.tensor(scores).median() > _SAME_UNITS)


def _in_place(candidate: Side, reference: Side, layer: int) -> bool:
    """Whether experts stand in order though the router's rows do not: their roles were given by values (``recast``)."""
    n = reference.tensors[Slot(Role.ROUTER, layer)].shape[0]
    return _borne_out(candidate, reference, layer, torch.arange(n))


def _by_units(candidate: Side, reference: Side, layer: int) -> torch.Tensor:
    """Order by gate rows alone."""
    n = reference.tensors[Slot(Role.ROUTER, layer)].shape[0]
    table = [
        [_likeness(candidate, reference, Slot(Role.GATE, layer, i), Slot(Role.GATE, layer, j)) for i in range(n)]
        for j in range(n)
    ]
    return assign(torch.tensor(table))


def _reorder(side: Side, layer: int, order: torch.Tensor) -> None:
    place = {int(i): j for j, i in enumerate(order.tolist())}
    moved: dict[Slot, torch.Tensor] = {}
    for slot, x in side.tensors.items():
        if slot.layer == layer and slot.role in _IN_EXPERT and 0 <= slot.expert < SHARED_EXPERT:
            moved[slot._replace(expert=place.get(slot.expert, slot.expert))] = x
        elif slot == Slot(Role.ROUTER, layer):
            moved[slot] = x[order]
        else:
            moved[slot] = x
    side.tensors = moved
