"""Which layer of the candidate is which layer of the reference.

Layers are compared by their units, whatever order these stand in: the mean, over a sample of one layer's unit rows,
of the cosine with the nearest row of the other. Identity first, then dynamic programming would be the textbook
choice, but a checkpoint whose names lie may list layers in any order, so the assignment is free.
"""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import Role, Slot

from .matching import assign, cosine, nearest
from .side import WRITERS, Side

SAME_LAYER = 0.6
"""Trained independents of one architecture reach about .47 on such rows; 20% noise on an int4 copy still gives .95."""

SURELY_SAME = 0.85
"""Above this a layer is taken at its index; below, every free pair is looked at."""

_SAMPLE = 96
_PROJECTED = 128
_SILENT = 1e-3
_EXPERTS = 4
_ALL_EXPERTS = 256


def unit_rows(side: Side, layer: int, *, experts: int) -> torch.Tensor | None:
    """Rows that tell a layer: its gate (or first MLP) rows with gains folded, over at most ``experts`` experts.

    Their mean is taken out: units of one layer may share it with those of another.
    """
    for role in (Role.GATE, Role.UP):
        slots = [s for s in side.slots(role) if s.layer == layer][:experts]
        if slots:
            rows = torch.cat([side.reader(s) for s in slots])
            return rows - rows.mean(dim=0)
    slots = [s for s in side.slots(Role.VALUE) if s.layer == layer]
    return side.reader(slots[0]) if slots else None


def layer_numbers(side: Side) -> list[int]:
    """Layers that hold anything."""
    return sorted({s.layer for s in side.tensors if s.layer >= 0})


def map_layers(candidate: Side, reference: Side) -> tuple[dict[int, int], dict[int, float]]:
    """Candidate layer to reference layer, with the similarity of each pair.

    Layers that are nowhere found are paired by index when that index is free, so that their (low) similarity is
    reported rather than hidden; silent layers are left out.

    Returns:
        (map, similarity by candidate layer).
    """
    cs = [i for i in layer_numbers(candidate) if not silent(candidate, i)]
    rs = [j for j in layer_numbers(reference) if not silent(reference, j)]
    c_rows = {i: x for i in cs if (x := unit_rows(candidate, i, experts=_EXPERTS)) is not None}
    r_rows = {j: x for j in rs if (x := unit_rows(reference, j, experts=_ALL_EXPERTS)) is not None}
    score: dict[int, float] = {}
    chosen: dict[int, int] = {}
    for i in c_rows:
        if i in r_rows and (s := _similarity(c_rows[i], r_rows[i])) > SURELY_SAME:
            chosen[i], score[i] = i, s
    _assign_free(c_rows, r_rows, chosen, score)
    for i in cs:
        if i not in chosen and i in rs and i not in chosen.values():
            chosen[i], score[i] = i, _attention_similarity(candidate, reference, i)
    return chosen, score


def _assign_free(
    c_rows: dict[int, torch.Tensor], r_rows: dict[int, torch.Tensor], chosen: dict[int, int], score: dict[int, float]
) -> None:
    """Pair layers that the same index does not pair, by values, in place."""
    free_c = [i for i in c_rows if i not in chosen]
    free_r = [j for j in r_rows if j not in chosen.values()]
    if not free_c or not free_r:
        return
    table = torch.tensor([[_similarity(c_rows[i], r_rows[j]) for j in free_r] for i in free_c])
    flat = table if len(free_c) <= len(free_r) else table.T
    for a, b in enumerate(assign(flat).tolist()):
        i, j = (a, b) if flat is table else (b, a)
        if b >= 0 and float(table[i, j]) > SAME_LAYER:
            chosen[free_c[i]], score[free_c[i]] = free_r[j], float(table[i, j])


def _similarity(c: torch.Tensor, r: torch.Tensor) -> float:
    """Median cosine of sampled candidate rows with their nearest reference row."""
    if c.shape[1] != r.shape[1]:
        return 0.0
    step = max(1, c.shape[0] // _SAMPLE)
    x, y = c[::step][:_SAMPLE], r
    if x.shape[1] > 4 * _PROJECTED:
        g = torch.randn(x.shape[1], _PROJECTED * 2, generator=torch.Generator().manual_seed(3))
        x, y = x @ g, y @ g
    return float(nearest(x, y)[1].median())


def _attention_similarity(candidate: Side, reference: Side, layer: int) -> float:
    """Cosine of the matrices that both have at this index, the largest over roles."""
    found = [0.0]
    for role in (Role.GATE, Role.UP, Role.VALUE, Role.OUT, Role.QUERY):
        c, r = candidate.get(role, layer), reference.get(role, layer)
        if c is not None and r is not None and c.shape == r.shape:
            found.append(cosine(c, r))
    return max(found)


def silent(side: Side, layer: int) -> bool:
    """Whether a layer adds nothing to the residual stream: both branches have a factor that is zero."""

    def size(*roles: Role) -> float:
        xs = [side.tensors[s] for s in side.slots(*roles) if s.layer == layer]
        return max((float(x.norm()) / max(1.0, x.numel() ** 0.5) for x in xs), default=0.0)

    def usual(role: Role) -> float:
        xs = [side.tensors[s] for s in side.slots(role)]
        return max((float(x.norm()) / max(1.0, x.numel() ** 0.5) for x in xs), default=1.0)

    attention = size(Role.OUT) * size(Role.VALUE, Role.VALUE_BIAS) <= _SILENT * usual(Role.OUT) * usual(Role.VALUE)
    mlp = size(Role.DOWN) * size(Role.UP, Role.UP_BIAS) <= _SILENT * usual(Role.DOWN) * usual(Role.UP)
    biases = size(Role.OUT_BIAS, Role.DOWN_BIAS) <= _SILENT * max(usual(role) for role in WRITERS)
    return attention and mlp and biases


def relabel(side: Side, layer_map: dict[int, int]) -> tuple[Slot, ...]:
    """Number the candidate's layers as the reference does, in place; layers that match nothing are taken out.

    Returns:
        The slots taken out, under their own numbers.
    """
    kept: dict[Slot, torch.Tensor] = {}
    dropped: list[Slot] = []
    for slot, x in side.tensors.items():
        if slot.layer < 0:
            kept[slot] = x
        elif slot.layer in layer_map:
            kept[slot._replace(layer=layer_map[slot.layer])] = x
        else:
            dropped.append(slot)
    side.tensors = kept
    return tuple(sorted(dropped))
