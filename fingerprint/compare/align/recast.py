"""Give a candidate whose names say nothing the roles of the reference it is compared with.

A blind reading of shapes cannot tell layers apart once names are hashed and their order with them. Against a reference
it can be done: embeddings by the cosines between their rows, then every matrix by its second moment over the residual
stream, X^T X of what reads it and X X^T of what writes it, once the embeddings have told the basis. Second moments do
not see the order or the sign of units and heads, and scales and mixings only blur them. Which gain goes with which
reader is part of the question: each reader is tried with every vector of that length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from fingerprint.architecture.interface import Layout, Role, Slot, View

from .matching import assign
from .model import Canonical
from .residual import Turn, find_turn
from .side import RESIDUAL_COLUMNS, RESIDUAL_ROWS, TABLES, Side
from .vectors import Parts, place_head_norms, place_vectors
from .vocabulary import gram_agreement

MOST_WIDTH = 1536
"""Second moments are kept for every matrix; beyond this width they would not fit."""

_LIKE = 0.6
_SAME_ROWS = 0.3
_MLP = frozenset({Role.GATE, Role.UP, Role.DOWN})
_VOCABULARY = (Role.EMBED, Role.HEAD)


@dataclass(frozen=True)
class Block:
    """A stored tensor of the reference: the slots cut from it, and how it lies.

    Attributes:
        slots: Slots with their views, in row order.
        shape: Shape as stored.
        transposed: Stored (in x out).
        packed: Experts along the first axis.
    """

    slots: tuple[tuple[Slot, View], ...]
    shape: tuple[int, ...]
    transposed: bool
    packed: bool

    @property
    def slot(self) -> Slot:
        """The first slot, which stands for all."""
        return self.slots[0][0]

    @property
    def reader(self) -> bool:
        """Whether its columns are the residual stream."""
        return self.slot.role in RESIDUAL_COLUMNS


def recast(candidate: Canonical, reference: Canonical) -> Canonical | None:
    """The candidate with the reference's slots, or None where that cannot be said.

    Args:
        candidate: Generic layout: every stored tensor under its own name.
        reference: A layout with roles.

    Returns:
        The candidate under the reference's layout, with views naming its own tensors; what found no place stays OTHER.
    """
    reference = _untied(reference)
    width = reference.layout.dims.hidden
    blocks = _blocks(reference.layout)
    stored = {s: t for s, t in candidate.tensors.items() if s.role is Role.OTHER}
    if not blocks or not stored or not 0 < width <= MOST_WIDTH:
        return None
    placed = _tables(stored, blocks, reference)
    embedded = next((s for s, b in placed.items() if b.slot.role is Role.EMBED), None)
    if embedded is None:
        return None
    basis = _basis(stored, placed, reference)
    gains = [s for s, t in stored.items() if t.shape == (width,)]
    chosen = _matrices(stored, blocks, placed, gains, basis, reference)
    norms = _place_norms(chosen, reference)
    pairs = place_head_norms(stored, reference)
    known = {*placed, *norms, *pairs}
    rest = {s: t for s, t in stored.items() if s not in known and t.ndim == 1}
    vectors: dict[Slot, Parts] = {own: ((slot, reference.layout.slots[slot]),) for own, slot in (norms | pairs).items()}
    stretched = {n: m for own, b in placed.items() for n, m in zip(stored[own].shape, b.shape, strict=True) if n != m}
    vectors |= place_vectors(rest, reference, {*norms.values(), *pairs.values()}, stretched)
    vectors |= _others(stored, reference, {*placed, *vectors})
    return _rebuilt(candidate, reference, placed, vectors)


def _untied(reference: Canonical) -> Canonical:
    """The reference with its head written out, so that a candidate's may find its place."""
    head, embed = Slot(Role.HEAD), Slot(Role.EMBED)
    if head in reference.tensors or embed not in reference.tensors:
        return reference
    view = replace(reference.layout.slots[embed], tensor="head")
    layout = replace(reference.layout, slots={**reference.layout.slots, head: view})
    return Canonical(layout, {**reference.tensors, head: reference.tensors[embed]}, reference.tokens)


def _blocks(layout: Layout) -> list[Block]:
    """The reference's stored matrices."""
    by_tensor: dict[str, list[tuple[Slot, View]]] = {}
    for slot, view in layout.slots.items():
        if slot.role is not Role.OTHER and len(view.shape) == 2 and view.order is None:
            by_tensor.setdefault(view.tensor, []).append((slot, view))
    return [_block(parts) for parts in by_tensor.values()]


def _block(parts: list[tuple[Slot, View]]) -> Block:
    parts = sorted(parts, key=lambda p: (p[1].index or 0, p[1].rows or (0, 0)))
    first = parts[0][1]
    rows = max(v.rows[1] if v.rows else v.shape[0] for _, v in parts)
    shape: tuple[int, ...] = (first.shape[1], rows) if first.transpose else (rows, first.shape[1])
    packed = first.index is not None
    if packed:
        shape = (len({v.index for _, v in parts}), *shape)
    return Block(tuple(parts), shape, first.transpose, packed)


def _tables(stored: Mapping[Slot, torch.Tensor], blocks: list[Block], reference: Canonical) -> dict[Slot, Block]:
    """Embedding and head by the cosines between their rows; other tables by shape."""
    placed: dict[Slot, Block] = {}
    wanted = [b for b in blocks if b.slot.role in _VOCABULARY]
    width = reference.layout.dims.hidden
    rows = min((b.shape[0] for b in wanted), default=0)
    side = Side(reference.layout, dict(reference.tensors))
    free = [s for s, t in stored.items() if t.ndim == 2 and t.shape[1] == width and t.shape[0] >= 0.9 * rows > 0]
    scores = torch.zeros(len(wanted), len(free))
    for i, block in enumerate(wanted):
        r = side.reader(block.slot)
        for j, slot in enumerate(free):
            n = min(len(r), len(stored[slot]))
            scores[i, j] = gram_agreement(stored[slot][:n], r[:n])
    for i, j in _best(scores):
        if float(scores[i, j]) > _SAME_ROWS:
            placed[free[j]] = wanted[i]
    if len(free) == 1:
        placed = {free[0]: next(b for b in wanted if b.slot.role is Role.EMBED)}
    for block in blocks:
        if block.slot.role in TABLES and block.slot.role is not Role.EMBED:
            same = [s for s, t in stored.items() if t.shape == block.shape and s not in placed]
            if len(same) == 1:
                placed[same[0]] = block
    return placed


def _best(scores: torch.Tensor) -> list[tuple[int, int]]:
    """Best one-to-one pairs of a (m, n) table, any m and n."""
    if not scores.numel():
        return []
    wide = scores.shape[0] <= scores.shape[1]
    order = assign(scores if wide else scores.T).tolist()
    return [(i, j) if wide else (j, i) for i, j in enumerate(order) if j >= 0]


def _basis(stored: Mapping[Slot, torch.Tensor], placed: Mapping[Slot, Block], reference: Canonical) -> Turn | None:
    """The change of basis that the tables tell."""
    tables = {b.slot: stored[s] for s, b in placed.items()}
    rows = min(len(tables[Slot(Role.EMBED)]), len(reference.tensors[Slot(Role.EMBED)]))
    c = Side(reference.layout, {s: t[:rows] if s.role in _VOCABULARY else t for s, t in tables.items()})
    r = {s: reference.tensors[s] for s in tables}
    return find_turn(c, Side(reference.layout, {s: t[:rows] if s.role in _VOCABULARY else t for s, t in r.items()}))


def _matrices(
    stored: Mapping[Slot, torch.Tensor],
    blocks: list[Block],
    placed: dict[Slot, Block],
    gains: list[Slot],
    basis: Turn | None,
    reference: Canonical,
) -> dict[Slot, tuple[Block, Slot | None]]:
    """Match the other matrices by second moments; adds to ``placed``, returns which gain each was matched with."""
    side = Side(reference.layout, dict(reference.tensors))
    taken = {id(b) for b in placed.values()}
    roles = (RESIDUAL_COLUMNS | RESIDUAL_ROWS) - {*TABLES, Role.HEAD}
    wanted = [b for b in blocks if id(b) not in taken and b.slot.role in roles]
    free = [s for s, t in stored.items() if s not in placed and t.ndim >= 2]
    goals = [_unit(_reference_moment(b, side)) for b in wanted]
    scores = torch.zeros(len(wanted), len(free))
    with_gain: dict[tuple[int, int], Slot | None] = {}
    options: list[tuple[Slot | None, torch.Tensor | None]] = [(None, None), *((g, stored[g]) for g in gains)]
    for j, slot in enumerate(free):
        for reader, transposed in {(b.reader, b.transposed) for b in wanted if _fits(stored[slot], b)}:
            plain = _moment(stored[slot], reader=reader, transposed=transposed)
            for name, gain in options if reader and reference.layout.pre_norm else options[:1]:
                moment = _unit(_turned(plain, gain, basis, side))
                for i, block in enumerate(wanted):
                    if (block.reader, block.transposed) == (reader, transposed) and _fits(stored[slot], block):
                        score = float((moment * goals[i]).sum())
                        if score > float(scores[i, j]):
                            scores[i, j], with_gain[i, j] = score, name
    chosen: dict[Slot, tuple[Block, Slot | None]] = {}
    for i, j in _best(scores):
        if float(scores[i, j]) > _LIKE:
            placed[free[j]] = wanted[i]
            chosen[free[j]] = wanted[i], with_gain.get((i, j))
    return chosen


def _fits(x: torch.Tensor, block: Block) -> bool:
    """Whether shapes agree, up to the number of units of an MLP."""
    if tuple(x.shape) == block.shape:
        return True
    if block.slot.role not in _MLP or x.ndim != len(block.shape) or tuple(x.shape[:-2]) != block.shape[:-2]:
        return False
    axis = -1 if block.reader != block.transposed else -2
    other = -2 if axis == -1 else -1
    return int(x.shape[axis]) == block.shape[axis] and abs(x.shape[other] / block.shape[other] - 1.0) < 1.0


def _moment(x: torch.Tensor, *, reader: bool, transposed: bool) -> torch.Tensor:
    """(d x d) second moment over the residual stream of a stored matrix (or a stack of them)."""
    x = x.mT if transposed else x
    x = x.reshape(-1, x.shape[-1]) if reader else x.transpose(-1, -2).reshape(-1, x.shape[-2])
    return x.T @ x


def _reference_moment(block: Block, side: Side) -> torch.Tensor:
    parts = [side.reader(s) if block.reader else side.tensors[s].T for s, _ in block.slots]
    return _centred(sum((x.T @ x for x in parts), torch.zeros(())), side)


def _turned(moment: torch.Tensor, gain: torch.Tensor | None, basis: Turn | None, side: Side) -> torch.Tensor:
    if gain is not None:
        factor = gain + 1.0 if side.layout.norm.value == "rms_offset" else gain
        moment = moment * factor[:, None] * factor[None, :]
    moment = _centred(moment, side)
    return moment if basis is None else basis.rows(basis.columns(moment))


def _centred(moment: torch.Tensor, side: Side) -> torch.Tensor:
    if not side.centred:
        return moment
    moment = moment - moment.mean(dim=0, keepdim=True)
    return moment - moment.mean(dim=1, keepdim=True)


def _unit(moment: torch.Tensor) -> torch.Tensor:
    """Without its trace (which all moments share), at unit size."""
    moment = moment - torch.eye(len(moment)) * (moment.diagonal().mean())
    moment /= moment.norm().clamp_min(1e-30)
    return moment


def _place_norms(chosen: Mapping[Slot, tuple[Block, Slot | None]], reference: Canonical) -> dict[Slot, Slot]:
    """Norm slots by the gains their readers were matched with, most votes first."""
    side = Side(reference.layout, dict(reference.tensors))
    votes: dict[tuple[Slot, Slot], int] = {}
    for block, gain in chosen.values():
        norm = side.norm_slot(block.slot)
        if norm is not None and gain is not None:
            votes[norm, gain] = votes.get((norm, gain), 0) + 1
    placed: dict[Slot, Slot] = {}
    for norm, gain in sorted(votes, key=lambda pair: -votes[pair]):
        if gain not in placed and norm not in placed.values():
            placed[gain] = norm
    return placed


def _others(stored: Mapping[Slot, torch.Tensor], reference: Canonical, used: set[Slot]) -> dict[Slot, Parts]:
    """Tensors without a role, where only one of that shape is left on either side."""
    places: dict[Slot, Parts] = {}
    theirs = {s: t for s, t in reference.tensors.items() if s.role is Role.OTHER}
    for slot, x in theirs.items():
        twins = [s for s, t in theirs.items() if t.shape == x.shape]
        free = [s for s, t in stored.items() if s not in used and t.shape == x.shape]
        if len(twins) == len(free) == 1:
            places[free[0]] = ((slot, reference.layout.slots[slot]),)
    return places


def _rebuilt(
    candidate: Canonical, reference: Canonical, placed: Mapping[Slot, Block], vectors: Mapping[Slot, Parts]
) -> Canonical:
    """The candidate under the reference's slots, with dims of its own."""
    tensors: dict[Slot, torch.Tensor] = {}
    views: dict[Slot, View] = {}
    for own, block in placed.items():
        for slot, view in block.slots:
            cut = _own_view(view, block, own.name, candidate.tensors[own])
            views[slot], tensors[slot] = cut, cut.cut(candidate.tensors[own]).contiguous()
    for own, parts in vectors.items():
        x = candidate.tensors[own]
        for slot, view in parts:
            views[slot] = replace(view, tensor=own.name) if len(parts) > 1 else View(own.name, tuple(x.shape))
            tensors[slot] = views[slot].cut(x)
    used = {*placed, *vectors}
    for own, x in candidate.tensors.items():
        if own not in used:
            views[own], tensors[own] = candidate.layout.slots[own], x
    dims = reference.layout.dims
    down = next((t for s, t in tensors.items() if s.role is Role.DOWN), None)
    dims = replace(
        dims,
        vocab=tensors[Slot(Role.EMBED)].shape[0],
        intermediate=down.shape[1] if down is not None else dims.intermediate,
    )
    layout = replace(reference.layout, dims=dims, slots=views, source="reference", tied=Slot(Role.HEAD) not in tensors)
    return Canonical(layout, tensors, candidate.tokens)


def _own_view(view: View, block: Block, name: str, stored: torch.Tensor) -> View:
    """A reference's view, stretched to the candidate's number of units or rows."""
    matrix = tuple(stored.shape[-2:])
    rows, columns = (matrix[1], matrix[0]) if block.transposed else matrix
    if view.rows is None:
        return replace(view, tensor=name, shape=(rows, columns))
    expected = max(v.rows[1] for _, v in block.slots if v.rows)
    start, stop = (r * rows // expected for r in view.rows)
    return replace(view, tensor=name, shape=(stop - start, columns), rows=(start, stop))
