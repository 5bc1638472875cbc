"""Pair tensors of models without roles: by values, whatever the names, the order of axes, of gates or of units.

For convolutions, recurrences and anything else that ``recognise`` has no roles for (2-weights section 6: gate order,
axis permutation and renaming hide exact copies). A pair is tried as it lies, then under every order of axes, every
order of gate blocks (LSTM ifgo or iofc, GRU zrn or rzn), and last under a permutation of rows and of columns, found
from sorted values; the first that brings it close is kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import torch

from fingerprint.architecture.interface import Slot

from .alignment import Witness
from .matching import assign, cosine, match_rows

CLOSE = 0.6
"""Cosine at which a change of axes, gates or order is believed; tried ways reach sqrt(2 ln ways / n) by chance."""

_LEAST_VALUES = 16
_MOST_AXES = 4
_GATES = (4, 3)
_CLEAR = 0.2
_MOST_TRIED = 3
_MOST_ORDERED = 4_000_000


@dataclass(frozen=True)
class Way:
    """A way of looking at a candidate tensor.

    Attributes:
        tensor: The candidate's values in the reference's order.
        cosine: With the reference.
        word: What was undone; empty for nothing.
    """

    tensor: torch.Tensor
    cosine: float
    word: str = ""


def pair_generic(
    candidate: dict[Slot, torch.Tensor], reference: dict[Slot, torch.Tensor], witness: Witness
) -> tuple[dict[Slot, torch.Tensor], dict[Slot, Slot], set[str]]:
    """Find each reference tensor among the candidate's.

    Args:
        candidate: Slot to tensor.
        reference: Slot to tensor.
        witness: Takes what was tried, by slot name.

    Returns:
        (aligned by reference slot, reference slot to candidate slot, transforms undone). Slots of one name and shape
        are paired even when nothing alike is found, so that their distance is reported.
    """
    aligned: dict[Slot, torch.Tensor] = {}
    origin: dict[Slot, Slot] = {}
    words: set[str] = set()
    for slot, r in reference.items():
        c = candidate.get(slot)
        if c is not None and c.shape == r.shape and cosine(c, r) > CLOSE:
            aligned[slot], origin[slot] = c, slot
    free = {s: x for s, x in candidate.items() if s not in origin.values()}
    for slots, own in _groups({s: x for s, x in reference.items() if s not in aligned}, free):
        for slot, mine, way in _best_pairs(slots, own, reference, free):
            aligned[slot], origin[slot] = way.tensor, mine
            words |= {way.word} if way.word else set()
            words |= {"renamed"} if mine != slot else set()
            witness.evidence[f"paired:{slot.name or slot.role}"] = way.cosine
    for slot, r in reference.items():
        c = candidate.get(slot)
        if slot not in aligned and c is not None and c.shape == r.shape and slot not in origin.values():
            aligned[slot], origin[slot] = c, slot
    return aligned, origin, words


def _groups(
    reference: dict[Slot, torch.Tensor], candidate: dict[Slot, torch.Tensor]
) -> Iterator[tuple[list[Slot], list[Slot]]]:
    """Slots of both sides whose shapes are one multiset of sizes."""
    kinds = {_kind(x) for x in reference.values()}
    for kind in sorted(kinds):
        slots = [s for s, x in reference.items() if _kind(x) == kind]
        own = [s for s, x in candidate.items() if _kind(x) == kind]
        if own:
            yield slots, own


def _kind(x: torch.Tensor) -> tuple[int, ...]:
    """Sizes other than 1, sorted."""
    return tuple(sorted(n for n in x.shape if n != 1))


def _best_pairs(
    slots: list[Slot], own: list[Slot], reference: dict[Slot, torch.Tensor], candidate: dict[Slot, torch.Tensor]
) -> Iterator[tuple[Slot, Slot, Way]]:
    """One-to-one pairs of a group that are close in some way."""
    ways = {(s, o): look(candidate[o], reference[s]) for s in slots for o in own}
    for slot in slots:
        if max(ways[slot, o].cosine for o in own) < CLOSE:
            for mine in sorted(own, key=lambda o: _spread_gap(candidate[o], reference[slot]))[:_MOST_TRIED]:
                ways[slot, mine] = max(ways[slot, mine], _in_order(candidate[mine], reference[slot]), key=_closeness)
    table = torch.tensor([[ways[s, o].cosine for o in own] for s in slots])
    flipped = len(slots) > len(own)
    for i, j in enumerate(assign(table.T if flipped else table).tolist()):
        if j < 0:
            continue
        slot, mine = (slots[j], own[i]) if flipped else (slots[i], own[j])
        way = ways[slot, mine]
        if way.cosine > CLOSE and (reference[slot].numel() >= _LEAST_VALUES or way.cosine > 0.999):
            yield slot, mine, way


def look(c: torch.Tensor, r: torch.Tensor) -> Way:
    """The candidate tensor in the way that brings it closest to the reference.

    Args:
        c: Any shape with the reference's sizes, up to order and axes of size 1.
        r: The reference.

    Returns:
        The best Way; unchanged, if none is close.
    """
    best = Way(torch.zeros_like(r), 0.0)
    for axes, view in _axes(c, r):
        word = "" if axes == tuple(range(c.ndim)) and c.shape == r.shape else "axes-permuted"
        if c.ndim == r.ndim == 2 and axes == (1, 0):
            word = "transposed"
        score = cosine(view, r)
        if score > best.cosine:
            best = Way(view, score, word)
        if score > CLOSE:
            return best
    for _, view in _axes(c, r) if r.ndim <= 2 else ():
        for gated in _gate_orders(view):
            if (score := cosine(gated, r)) > max(CLOSE, best.cosine):
                best = Way(gated, score, "permuted:gates")
    return best


def _closeness(way: Way) -> float:
    return way.cosine


def _spread_gap(c: torch.Tensor, r: torch.Tensor) -> float:
    """How differently the values of two tensors are spread; equal for any order of units."""
    levels = torch.linspace(0, 1, 33)
    x, y = (torch.quantile(t.reshape(-1)[:: max(1, t.numel() // 8192)], levels) for t in (c, r))
    return float((x - y).norm() / y.norm().clamp_min(1e-30))


def _in_order(c: torch.Tensor, r: torch.Tensor) -> Way:
    """The candidate with rows and columns reordered, if both are long enough for that to be evidence.

    The nearest of m unrelated rows in k dimensions has a cosine of about sqrt(2 ln m / k).
    """
    nothing = Way(c, 0.0)
    if c.shape != r.shape or r.ndim < 2 or r.numel() > _MOST_ORDERED:
        return nothing
    rows, columns = r.shape[0], r.numel() // r.shape[0]
    chance = math.sqrt(2 * math.log(max(rows, columns)) / min(rows, columns))
    if chance > CLOSE - _CLEAR:
        return nothing
    ordered = _reordered(c, r)
    if ordered is None:
        return nothing
    score = cosine(ordered, r)
    return Way(ordered, score, "permuted:units") if score > CLOSE + _CLEAR else nothing


def _axes(c: torch.Tensor, r: torch.Tensor) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Views of ``c`` in the shape of ``r``, by order of axes; axes of size 1 are put where the reference has them."""
    if c.shape == r.shape:
        yield tuple(range(c.ndim)), c
    bare = c.reshape([n for n in c.shape if n != 1])
    wanted = [n for n in r.shape if n != 1]
    if bare.ndim > _MOST_AXES or Counter(bare.shape) != Counter(wanted):
        return
    straight = tuple(range(bare.ndim))
    for axes in permutations(straight):
        turned = bare.permute(axes)
        if list(turned.shape) == wanted and (axes != straight or c.shape != r.shape):
            yield (axes if axes != straight else (-1,)), turned.reshape(r.shape)


def _gate_orders(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """``x`` with blocks of its first axis in every other order."""
    for gates in _GATES:
        if not x.ndim or x.shape[0] % gates or x.shape[0] < 2 * gates:
            continue
        blocks = x.chunk(gates)
        for order in permutations(range(gates)):
            if order != tuple(range(gates)):
                yield torch.cat([blocks[i] for i in order])


def _reordered(c: torch.Tensor, r: torch.Tensor) -> torch.Tensor | None:
    """``c`` with rows and columns in the reference's order, as far as sorted values tell; None if they tell nothing.

    Rows are matched by their sorted values, which no order of columns changes; then columns by their values, then
    rows again by theirs.
    """
    x, y = c.reshape(c.shape[0], -1), r.reshape(r.shape[0], -1)
    rows = match_rows(_sorted(x), _sorted(y)).order
    if bool((rows < 0).any()):
        return None
    columns = match_rows(x[rows].T.contiguous(), y.T.contiguous()).order
    if bool((columns < 0).any()):
        return None
    rows = match_rows(x[:, columns], y).order
    return None if bool((rows < 0).any()) else x[:, columns][rows].reshape(r.shape)


def _sorted(x: torch.Tensor) -> torch.Tensor:
    values = x.sort(dim=1).values
    return values - values.mean(dim=0)
