"""Which tensors of two fingerprints carry the same values in one basis, and through what they can be compared.

Equal shapes share projections, so names and the order of layers do not matter. Where a shape differs in its rows alone
(a padded vocabulary) or a row was added to all rows (a shifted head), the grids still have values in common.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from fingerprint.architecture.interface import Role, Slot
from fingerprint.fingerprint import Fingerprint, SlotSketch
from fingerprint.sketch.grid import shared
from fingerprint.sketch.linear import common, shrink

SAME_BASIS = 0.9
"""Cosine from which two tensors share values in one basis. Honest descendants stay above .93, noise of 20% leaves .98,
int4 .99; where some heads were moved it falls below, and what is left over would look learned."""

VECTOR_MATCH = 0.999
"""Vectors (norms, biases) reach cosine .9 by chance: only near-equal ones are matched out of order."""

BETTER = 0.5
"""A gauge is changed where values then agree this much better: gains moved into or out of what reads them, means taken
out of what a LayerNorm reads."""

TABLES = (Role.EMBED, Role.HEAD, Role.POSITION)


@dataclass(frozen=True)
class Pair:
    """A tensor of the candidate and the one of the reference that it comes from.

    Attributes:
        candidate: Slot of the candidate.
        reference: Slot of the reference.
        projected: Whether linear sketches can be compared; else only grids.
        folded: Whether grids are compared with norm gains folded in, because gains were moved; else as stored.
        centred: Whether the mean that a LayerNorm takes out is taken out of both grids.
    """

    candidate: Slot
    reference: Slot
    projected: bool = True
    folded: bool = False
    centred: bool = False


def correspond(candidate: Fingerprint, reference: Fingerprint) -> dict[Slot, Pair]:
    """Pairs by reference slot: the same role first, what that leaves by values among equal shapes."""
    pairs: dict[Slot, Pair] = {}
    for slot, sketch in reference.slots.items():
        if slot in candidate.slots and sketch.linear.ndim == 2:
            pair = _same_slot(candidate, reference, slot)
            if pair is not None:
                pairs[slot] = pair
    pairs |= _by_values(candidate, reference, pairs, matrices=True)
    pairs |= _vectors(candidate, reference, pairs, layer_map(pairs))
    return pairs | _by_values(candidate, reference, pairs, matrices=False) if pairs else pairs


def layer_map(pairs: Mapping[Slot, Pair]) -> dict[int, int]:
    """Reference layer to the candidate layer that most of its paired matrices lie in; -1 (no layer) to itself."""
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for slot, pair in pairs.items():
        votes[slot.layer][pair.candidate.layer] += 1
    return {layer: found.most_common(1)[0][0] for layer, found in votes.items()} | {-1: -1}


def _adrift(slot: Slot, reference: Fingerprint, pairs: Mapping[Slot, Pair]) -> bool:
    """Whether a vector lies in coordinates of its own matrix, and that lost them."""
    stem = Slot(BIASES[slot.role], slot.layer, slot.expert) if slot.role in BIASES else None
    return stem is not None and stem in reference.slots and stem not in pairs


BIASES = {
    Role.QUERY_BIAS: Role.QUERY, Role.KEY_BIAS: Role.KEY, Role.VALUE_BIAS: Role.VALUE, Role.GATE_BIAS: Role.GATE,
    Role.UP_BIAS: Role.UP, Role.QUERY_NORM: Role.QUERY, Role.KEY_NORM: Role.KEY,
}  # fmt: skip
"""Vectors in coordinates of heads and units, and the matrices whose rows they go with."""


def _vectors(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair], layers: Mapping[int, int]
) -> dict[Slot, Pair]:
    """Norms and biases go with the matrices of their layer: by themselves they say little."""
    found: dict[Slot, Pair] = {}
    based = any(layer >= 0 for layer in layers) or all(s.layer < 0 for s in reference.slots)
    for slot, sketch in reference.slots.items():
        if sketch.linear.ndim == 2 or slot.layer not in layers or not based or _adrift(slot, reference, pairs):
            continue
        mine = slot._replace(layer=layers[slot.layer])
        other = candidate.slots.get(mine)
        if other is not None and other.shape == sketch.shape and other.whole == sketch.whole:
            found[slot] = Pair(mine, slot)
    guessed = candidate.meta.ambiguous or reference.meta.ambiguous
    return found | _nearest_vectors(candidate, reference, found) if guessed else found


def _nearest_vectors(candidate: Fingerprint, reference: Fingerprint, found: Mapping[Slot, Pair]) -> dict[Slot, Pair]:
    """Vectors of the stream by values, where layers were guessed: gains of layers differ by more than any copy's do."""
    width = (reference.meta.dims.hidden,)
    wanted = [s for s in found if reference.slots[s].shape == width and s.role not in BIASES]
    offered = [
        s for s, k in candidate.slots.items()
        if k.shape == width and s.role not in BIASES and k.whole and reference.slots[wanted[0]].whole
    ] if wanted else []  # fmt: skip
    if len(offered) < len(wanted) or not wanted:
        return {}
    theirs, ours = (
        np.stack([m.slots[s].linear.astype(np.float64) for s in slots])
        for m, slots in ((reference, wanted), (candidate, offered))
    )
    squares = (theirs**2).sum(1)[:, None] + (ours**2).sum(1)[None] - 2.0 * theirs @ ours.T
    rows, columns = linear_sum_assignment(squares)
    return {wanted[i]: Pair(offered[j], wanted[i]) for i, j in zip(rows, columns, strict=True)}


def _by_values(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair], *, matrices: bool
) -> dict[Slot, Pair]:
    """Pairs among equal shapes of what has none yet."""
    taken = {pair.candidate for pair in pairs.values()}
    by_shape: dict[tuple[int, ...], tuple[list[Slot], list[Slot]]] = defaultdict(lambda: ([], []))
    for slot, sketch in reference.slots.items():
        if slot not in pairs and (sketch.linear.ndim == 2) is matrices:
            by_shape[sketch.shape][0].append(slot)
    for slot, sketch in candidate.slots.items():
        if slot not in taken and sketch.shape in by_shape:
            by_shape[sketch.shape][1].append(slot)
    found: dict[Slot, Pair] = {}
    for wanted, offered in by_shape.values():
        found |= _assign(wanted, offered, reference, candidate)
    return found


def _same_slot(candidate: Fingerprint, reference: Fingerprint, slot: Slot) -> Pair | None:
    a, b = candidate.slots[slot], reference.slots[slot]
    if a.linear.ndim != b.linear.ndim or a.whole != b.whole:
        return None
    if a.shape == b.shape and (a.norm == b.norm == 0.0 or cosine(a, b) >= SAME_BASIS):
        return _gauge(candidate, reference, slot, slot)
    if a.shape != b.shape and (slot.role not in TABLES or a.shape[1:] != b.shape[1:]):
        return None
    raw = Pair(slot, slot, projected=False)
    options = [raw, replace(raw, folded=True), replace(raw, centred=True)]
    shifted = slot.role is Role.HEAD
    found = {pair: _grid_cosine(candidate, reference, pair, centred=shifted) for pair in options}
    best = max(found, key=lambda pair: found[pair])
    return best if found[best] >= SAME_BASIS else None


def _gauge(candidate: Fingerprint, reference: Fingerprint, ours: Slot, theirs: Slot) -> Pair:
    """As stored, unless values agree much better with gains folded in or means taken out."""
    stored = Pair(ours, theirs)
    distance = apart(candidate, reference, stored)
    if distance == 0.0:
        return stored
    folded, centred = replace(stored, folded=True), replace(stored, centred=True, projected=False)
    gains = reference.slots[theirs].gain is not None or candidate.slots[ours].gain is not None
    if gains and apart(candidate, reference, folded) < BETTER * distance:
        return folded
    return centred if apart(candidate, reference, centred) < BETTER * distance else stored


def apart(candidate: Fingerprint, reference: Fingerprint, pair: Pair) -> float:
    """Relative distance on the grid."""
    c, r = grids(candidate, reference, pair)
    size = float(np.linalg.norm(r))
    return float(np.linalg.norm(c - r)) / size if size > 0 else 0.0


def _assign(
    wanted: Sequence[Slot], offered: Sequence[Slot], reference: Fingerprint, candidate: Fingerprint
) -> dict[Slot, Pair]:
    """One-to-one matching of equal shapes by cosine."""
    if not wanted or not offered:
        return {}
    theirs, ours = [reference.slots[s] for s in wanted], [candidate.slots[s] for s in offered]
    matrix = theirs[0].linear.ndim == 2
    if ours[0].linear.ndim != theirs[0].linear.ndim or ours[0].whole != theirs[0].whole:
        return {}
    size = tuple(min(m, n) for m, n in zip(theirs[0].linear.shape, ours[0].linear.shape, strict=True))
    linear = _unit([shrink(s.linear, size) for s in theirs]) @ _unit([shrink(s.linear, size) for s in ours]).T
    stored = linear
    if matrix and theirs[0].grid is not None and ours[0].grid is not None:
        cells = [grids(candidate, reference, Pair(offered[0], r))[1] for r in wanted]
        others = [grids(candidate, reference, Pair(c, wanted[0]))[0] for c in offered]
        stored = _unit(cells) @ _unit(others).T
    best = np.maximum(linear, stored)
    rows, columns = linear_sum_assignment(-best)
    floor = SAME_BASIS if matrix else VECTOR_MATCH
    found: dict[Slot, Pair] = {}
    for i, j in zip(rows, columns, strict=True):
        if best[i, j] >= floor:
            r, c = wanted[i], offered[j]
            if linear[i, j] >= floor:
                found[r] = _gauge(candidate, reference, c, r) if matrix else Pair(c, r)
            else:
                found[r] = Pair(c, r, projected=False)
    return found


def _unit(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of one shape as rows of unit length."""
    rows = np.stack([x.reshape(-1) for x in arrays])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


def cosine(a: SlotSketch, b: SlotSketch) -> float:
    """Cosine of two linear sketches."""
    x, y = common(a.linear, b.linear)
    scale = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float((x * y).sum()) / scale if scale > 0 else float(a.norm == b.norm)


def _grid_cosine(candidate: Fingerprint, reference: Fingerprint, pair: Pair, *, centred: bool = False) -> float:
    c, r = grids(candidate, reference, pair)
    if centred and c.size:
        c, r = c - c.mean(0), r - r.mean(0)
    scale = float(np.linalg.norm(c) * np.linalg.norm(r))
    return float((c * r).sum()) / scale if scale > 0 else 0.0


def grids(candidate: Fingerprint, reference: Fingerprint, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Values that both grids have, folded or as stored, float64 (rows, columns); empty where one has no grid."""
    a, b = candidate.slots[pair.candidate], reference.slots[pair.reference]
    c, r = _values(a, folded=pair.folded), _values(b, folded=pair.folded)
    if c.size == 0 or r.size == 0:
        return np.zeros((0, 0)), np.zeros((0, 0))
    for axis in range(2):
        m, n = _length(a, axis), _length(b, axis)
        if m != n or c.shape[axis] != r.shape[axis]:
            i, j = shared(candidate.grid_index[m], reference.grid_index[n])
            c, r = np.take(c, i, axis), np.take(r, j, axis)
    mean = _mean_axis(reference, pair)
    return (c, r) if mean is None else (c - c.mean(mean, keepdims=True), r - r.mean(mean, keepdims=True))


def shared_places(candidate: Fingerprint, reference: Fingerprint, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Where the rows and columns that both grids have stand in the reference's tensor, int (m,) and (n,)."""
    found = []
    for axis in range(2):
        ours = _length(candidate.slots[pair.candidate], axis)
        theirs = _length(reference.slots[pair.reference], axis)
        kept = reference.grid_index[theirs]
        found.append(kept if ours == theirs else kept[shared(candidate.grid_index[ours], kept)[1]])
    return found[0], found[1]


def _mean_axis(reference: Fingerprint, pair: Pair) -> int | None:
    """The axis over which a LayerNorm takes out the mean of what this tensor writes; None where none does."""
    if not pair.centred or reference.meta.norm != "layer" or not reference.meta.pre_norm:
        return None
    return {Role.EMBED: 1, Role.POSITION: 1, Role.OUT: 0, Role.DOWN: 0}.get(pair.reference.role)


def _length(sketch: SlotSketch, axis: int) -> int:
    return sketch.shape[0] if axis == 0 else max(1, int(np.prod(sketch.shape[1:], dtype=np.int64)))


def _values(sketch: SlotSketch, *, folded: bool) -> np.ndarray:
    if sketch.grid is None:
        return np.zeros((0, 0))
    values = sketch.grid.astype(np.float64)
    return values * sketch.gain if folded and sketch.gain is not None else values


def projections(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair]
) -> tuple[dict[Slot, np.ndarray], dict[Slot, np.ndarray]]:
    """Paired linear sketches by reference slot, cut to their common size, float64; only where they can be compared."""
    ours, theirs = {}, {}
    for slot, pair in pairs.items():
        if pair.projected:
            ours[slot], theirs[slot] = common(candidate.slots[pair.candidate].linear, reference.slots[slot].linear)
    return ours, theirs
