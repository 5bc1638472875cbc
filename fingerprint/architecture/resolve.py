"""Tell apart matrices of one shape: by values where they are clear, then by words in names, then by order.

Values come first because a copier can swap names at no cost, but not what training has left in the weights. What
neither values nor words decide is returned as ambiguous, so that a comparison can try both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import torch

from fingerprint.checkpoint.interface import Checkpoint

from . import values
from .grid import Kind
from .interface import Role, View
from .templates import Shape

WORDS: dict[Role, frozenset[str]] = {
    Role.QUERY: frozenset({"q", "query", "wq", "queries"}),
    Role.KEY: frozenset({"k", "key", "wk", "keys"}),
    Role.VALUE: frozenset({"v", "value", "wv", "values"}),
    Role.OUT: frozenset({"o", "out", "output", "wo", "proj", "dense"}),
    Role.GATE: frozenset({"gate", "w1", "act"}),
    Role.UP: frozenset({"up", "w3", "lin", "wide"}),
    Role.NORM_ATTENTION: frozenset({"attn", "attention", "input", "1", "first", "att"}),
    Role.NORM_MLP: frozenset({"mlp", "ffn", "post", "2", "second", "ff", "feed"}),
    Role.QUERY_NORM: frozenset({"q", "query"}),
    Role.KEY_NORM: frozenset({"k", "key"}),
    Role.EMBED: frozenset({"embed", "embedding", "embeddings", "tok", "token", "wte", "emb", "vocab", "in"}),
    Role.HEAD: frozenset({"head", "output", "out", "unembed", "decoder", "logits", "lm"}),
}
"""Words that speak for a role, where values do not."""

TIE = 4.0
"""Assignments whose z score is within this of the best are not told apart by values."""

CLEAR_DIRECTION = math.log(1.4)
"""Least mean log ratio of common directions of gate and up (log 2.5 to log 4 in trained families)."""

CLEAR_GAIN = 0.15
"""Least difference of mean |correlation| of a norm's gain with its readers' column norms (.3 to .7 when trained)."""


@dataclass(frozen=True)
class Resolved:
    """Roles of kinds, in the order asked for, and the pairs that stayed open."""

    roles: dict[Role, Kind]
    ambiguous: tuple[tuple[str, str], ...] = ()
    head_dim: int = 0


@dataclass
class Weights:
    """Unit lines of kinds, read once. Rows and columns are of the oriented matrix (out x in)."""

    checkpoint: Checkpoint
    flipped: bool
    layers: Sequence[int]
    _cache: dict[tuple[str, int, bool], torch.Tensor] = field(default_factory=dict)

    def lines(self, kind: Kind, layer: int, *, columns: bool = False) -> torch.Tensor:
        """Centred unit rows or columns of one layer's matrix."""
        key = (kind.key, layer, columns)
        if key not in self._cache:
            self._cache[key] = values.lines(self.checkpoint, self.view(kind, layer), columns=columns)
        return self._cache[key]

    def view(self, kind: Kind, layer: int) -> View:
        """The oriented whole matrix."""
        shape = kind.shape[::-1] if self.flipped else kind.shape
        return View(kind.names[layer], shape, transpose=self.flipped)


def attention(weights: Weights, shape: Shape, head_dim: int, claimed: int) -> Resolved:
    """Query, key, value and output among the attention's kinds.

    Query and key rows of equal index were trained against each other, and so were value rows and output columns.

    Args:
        weights: Where lines come from.
        shape: Assignment by shape with four separate matrices.
        head_dim: Width of a head; 0 to find it by values.
        claimed: Width that the config claims, for when values do not say.

    Returns:
        Roles of all four.
    """
    orders = [order for order in permutations(shape.attention) if _attention_fits(order, shape)]
    width = head_dim or head_width(weights, _keys(orders)) or claimed
    group = shape.query_rows // shape.key_rows
    scores = {order: _attention_score(weights, order, width, group) for order in orders}
    best = max(scores.values())
    close = [order for order in orders if scores[order] > best - TIE]
    roles = (Role.QUERY, Role.KEY, Role.VALUE, Role.OUT)
    chosen, open_pairs = _by_words(close, roles)
    return Resolved(dict(zip(roles, chosen, strict=True)), open_pairs, width)


def _attention_fits(order: Sequence[Kind], shape: Shape) -> bool:
    query, key, value, out = (kind.shape[::-1] if shape.flipped else kind.shape for kind in order)
    wide, narrow = (shape.query_rows, shape.hidden), (shape.key_rows, shape.hidden)
    return query == wide and key == narrow and value == narrow and out == wide[::-1]


def _keys(orders: Iterable[Sequence[Kind]]) -> list[Kind]:
    """Kinds that may be values."""
    return list(dict.fromkeys(order[2] for order in orders))


def head_width(weights: Weights, kinds: Sequence[Kind]) -> int:
    """Width of a head from rows of the matrices that may be keys or values; 0 where no width is clear."""
    rows = weights.view(kinds[0], 0).shape[0] if kinds else 0
    widths = [w for w in values.WIDTHS if rows % w == 0]
    scores = values.head_widths(((weights.lines(k, i) for i in weights.layers) for k in kinds), widths)
    width = max(scores, key=lambda w: scores[w], default=0)
    return width if scores.get(width, 0.0) >= values.CLEAR else 0


def _attention_score(weights: Weights, order: Sequence[Kind], width: int, group: int) -> float:
    """Sum of both alignments over layers, scaled to about N(0, 1) for matrices that do not belong together."""
    query, key, value, out = order
    total = 0.0
    for layer in weights.layers:
        for many, few, columns in ((query, key, False), (out, value, True)):
            one = weights.lines(many, layer, columns=columns)
            other = weights.lines(few, layer)
            if group > 1:
                if not width:
                    continue
                other = values.per_query(other, head_dim=width, group=group, count=len(one))
            total += values.alignment(one, other)
    return total / math.sqrt(2 * len(weights.layers))


def gate_and_up(weights: Weights, kinds: Sequence[Kind]) -> Resolved:
    """Which of two readers of the MLP is the gate: its rows share a direction, whatever the signs of the other's."""
    one, other = kinds
    ratio = 0.0
    for layer in weights.layers:
        lengths = []
        for kind in (one, other):
            rows = values.first_rows(weights.checkpoint, weights.view(kind, layer))
            lengths.append(max(values.common_direction(rows), 1e-6))
        ratio += math.log(lengths[0] / lengths[1]) / len(weights.layers)
    if abs(ratio) >= CLEAR_DIRECTION:
        gate, up = (one, other) if ratio > 0 else (other, one)
        return Resolved({Role.GATE: gate, Role.UP: up})
    return by_words(kinds, (Role.GATE, Role.UP))


def gains(
    checkpoint: Checkpoint,
    kinds: Sequence[Kind],
    layers: Sequence[int],
    readers: tuple[Sequence[Sequence[View]], Sequence[Sequence[View]]],
    roles: tuple[Role, Role],
) -> Resolved:
    """Which of two gains is read by which matrices: columns of a reader grow or shrink with the gain before it.

    Args:
        checkpoint: Where they are stored.
        kinds: Two gains of length d.
        layers: Layers looked at.
        readers: For each role and layer looked at, matrices that would read it.
        roles: The two roles.

    Returns:
        Roles of both.
    """
    one, other = kinds
    straight = crossed = 0.0
    for place, layer in enumerate(layers):
        first, second = (checkpoint.tensor(kind.names[layer]).float() for kind in kinds)
        for mine, yours, views in ((first, second, readers[0][place]), (second, first, readers[1][place])):
            for view in views:
                columns = values.column_norms(checkpoint, view)
                straight += values.moves_with(mine, columns) / max(1, len(views))
                crossed += values.moves_with(yours, columns) / max(1, len(views))
    margin = (straight - crossed) / max(1, 2 * len(layers))
    if abs(margin) >= CLEAR_GAIN:
        first_kind, second_kind = (one, other) if margin > 0 else (other, one)
        return Resolved({roles[0]: first_kind, roles[1]: second_kind})
    return by_words(kinds, roles)


def by_words(kinds: Sequence[Kind], roles: Sequence[Role]) -> Resolved:
    """Roles by words in names, else by order; pairs that only order decided are ambiguous."""
    chosen, open_pairs = _by_words(list(permutations(kinds)), roles)
    return Resolved(dict(zip(roles, chosen, strict=True)), open_pairs)


def _by_words(
    orders: Sequence[Sequence[Kind]], roles: Sequence[Role]
) -> tuple[Sequence[Kind], tuple[tuple[str, str], ...]]:
    """The order that words speak for; among equals the one that follows storage, and the pairs it leaves open."""

    def told(order: Sequence[Kind]) -> int:
        return sum(len(WORDS.get(role, frozenset()) & set(kind.words)) for role, kind in zip(roles, order, strict=True))

    most = max(told(order) for order in orders)
    equal = [order for order in orders if told(order) == most]
    chosen = min(equal, key=lambda order: [kind.place for kind in order])
    open_pairs = {
        tuple(sorted((roles[i].value, roles[chosen.index(kind)].value)))
        for order in equal
        for i, kind in enumerate(order)
        if kind is not chosen[i]
    }
    return chosen, tuple(sorted((a, b) for a, b in open_pairs))
