"""Layers out of a bag: names hashed, order shuffled, only values left.

Matrices of one layer were trained against each other, unit by unit and head by head (``values.alignment``), which pairs
gate, up and down for certain, and query with key and value with output as far as training has gone. Which attention
goes with which MLP, and in which order layers stand, values hardly say: the grid is then marked unordered, and a
comparison has to match layers by content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment

from fingerprint.checkpoint.interface import Checkpoint, TensorInfo

from . import values
from .grid import Grid, Kind
from .interface import View
from .templates import Shape, fits

BUDGET = 1 << 27
"""Elements of lines kept at once (512 MiB of float32)."""

PROJECTED = 256
"""Width to which lines are projected before their Gram matrices are compared."""

MOST = 1024
"""Most matrices paired; the tables of scores are quadratic in it."""


@dataclass(frozen=True)
class Pool:
    """Lines of the matrices of a bag, read once."""

    rows: Mapping[str, torch.Tensor]
    columns: Mapping[str, torch.Tensor]


def bag_grid(checkpoint: Checkpoint, hidden: int) -> Grid | None:
    """Group matrices into layers by values alone.

    Args:
        checkpoint: Some lines of every matrix are read.
        hidden: Width of the residual stream.

    Returns:
        Kinds by layers; layers in storage order of their last MLP matrix, which means nothing. None where the shapes
        are not those of a stack of transformer layers with separate or stacked projections.
    """
    matrices = {
        name: info
        for name, info in checkpoint.tensors.items()
        if len(info.shape) == 2 and hidden in info.shape and info.dtype.is_floating_point
    }
    solved = _solve(matrices, hidden)
    if solved is None or len(matrices) > MOST:
        return None
    shape, layers = solved
    inside = {name: info for name, info in matrices.items() if info.shape in {k.shape for k in _kinds(shape)}}
    pool = _read(checkpoint, inside, shape, hidden)
    mlp = _gate_first(checkpoint, _mlp(pool, inside, shape, layers), matrices, shape.flipped)
    attention = _attention(pool, inside, shape, layers, {name for column in mlp for name in column})
    attention = _linked(pool, attention, mlp, layers)
    kinds = [_kind(place, column, matrices) for place, column in enumerate([*attention, *mlp])]
    used = {name for kind in kinds for name in kind.names}
    gains = _gains(checkpoint, kinds, shape, len(attention) - 1, hidden)
    kinds += [Kind(f"bag {len(kinds) + n}", names, (hidden,), (), len(kinds) + n) for n, names in enumerate(gains)]
    used |= {name for names in gains for name in names}
    return Grid(tuple(kinds), layers, tuple(n for n in checkpoint.tensors if n not in used), ordered=False, bag=True)


def _kinds(shape: Shape) -> tuple[Kind, ...]:
    return (*shape.attention, *shape.mlp)


def _kind(place: int, names: Sequence[str], tensors: Mapping[str, TensorInfo]) -> Kind:
    return Kind(f"bag {place}", tuple(names), tensors[names[0]].shape, (), place)


def _solve(matrices: Mapping[str, TensorInfo], hidden: int) -> tuple[Shape, int] | None:
    """The most layers whose matrices, as many of each shape as there are, make up a transformer."""
    counts = Counter(info.shape for info in matrices.values())
    largest = max(counts, key=lambda s: s[0] * s[1], default=None)
    for layers in range(max(counts.values(), default=0), 1, -1):
        for without in (None, largest):
            kinds = [
                Kind(f"{shape} {copy}", (), shape, (), copy)
                for shape, count in counts.items()
                if shape != without
                for copy in range(count // layers)
            ]
            found = fits(kinds, hidden, experts=False)
            if found:
                return found[0], layers
    return None


def _read(checkpoint: Checkpoint, matrices: Mapping[str, TensorInfo], shape: Shape, hidden: int) -> Pool:
    most = max(32, min(values.LINES, BUDGET // max(1, 2 * len(matrices) * hidden)))
    rows, columns = {}, {}
    for name, info in matrices.items():
        oriented = info.shape[::-1] if shape.flipped else info.shape
        view = View(name, oriented, transpose=shape.flipped)
        if oriented[1] == hidden:
            rows[name] = values.lines(checkpoint, view, most=most)
        if oriented[0] == hidden:
            columns[name] = values.lines(checkpoint, view, columns=True, most=most)
    return Pool(rows, columns)


def _assign(scores: torch.Tensor) -> list[int]:
    """Column of each row in the best one-to-one assignment; -1 where rows outnumber columns."""
    row, column = linear_sum_assignment(-scores.numpy())
    chosen = [-1] * len(scores)
    for r, c in zip(row.tolist(), column.tolist(), strict=True):
        chosen[r] = c
    return chosen


def _table(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([[values.alignment(a, b) for b in other] for a in one]).reshape(len(one), len(other))


def _named(matrices: Mapping[str, TensorInfo], kind: Kind) -> list[str]:
    return [name for name, info in matrices.items() if info.shape == kind.shape]


def _mlp(pool: Pool, matrices: Mapping[str, TensorInfo], shape: Shape, layers: int) -> list[list[str]]:
    """Columns of names, one a kind: gate before up, then down."""
    *readers, down = shape.mlp
    downs = [name for name in _named(matrices, down) if name in pool.columns]
    if down.shape[0] == down.shape[1]:
        return []
    downs = downs[:layers]
    names = [name for name in _named(matrices, readers[0]) if name in pool.rows]
    if shape.fused_mlp:
        return [names[:layers], downs]
    scores = _table([pool.rows[name] for name in names], [pool.columns[name] for name in downs])
    chosen = _assign(scores.repeat(1, len(readers)))
    partners: list[list[str]] = [[] for _ in downs]
    for name, column in zip(names, chosen, strict=True):
        if column >= 0:
            partners[column % len(downs)].append(name)
    found = [[group[place] for group in partners] for place in range(len(readers))] + [downs]
    return _settled(pool, found) if len(readers) == 2 and len(downs) <= SETTLED else found


def _settled(pool: Pool, columns: list[list[str]]) -> list[list[str]]:
    """Two readers given to the layers anew, each by both of its partners: down, and the reader that it is beside."""
    one, other, downs = columns
    lines = [pool.columns[name] for name in downs]
    for _ in range(SETTLING):
        for _ in range(2):
            ours, beside = ([pool.rows[name] for name in column] for column in (one, other))
            scores = _table(lines, ours) + _table(beside, ours)
            one, other = other, [one[place] for place in _assign(scores)]
    return [one, other, downs]


SETTLING, SETTLED = 2, 16
"""Rounds in which readers are given to layers anew, and layers up to which it is done: the tables are quadratic in
their number, and models with more are trained so long that the first pass does."""


def _gate_first(
    checkpoint: Checkpoint, columns: list[list[str]], matrices: Mapping[str, TensorInfo], flipped: bool
) -> list[list[str]]:
    """Within each layer, the reader whose rows share more of a direction first."""
    if len(columns) != 3:
        return columns

    def direction(name: str) -> float:
        shape = matrices[name].shape
        view = View(name, shape[::-1] if flipped else shape, transpose=flipped)
        return values.common_direction(values.first_rows(checkpoint, view))

    pairs = [sorted(pair, key=direction, reverse=True) for pair in zip(*columns[:2], strict=True)]
    return [[pair[0] for pair in pairs], [pair[1] for pair in pairs], columns[2]]


def _attention(
    pool: Pool, matrices: Mapping[str, TensorInfo], shape: Shape, layers: int, taken: set[str]
) -> list[list[str]]:
    """Columns of names: query, key, value, output; or fused and output."""
    wide = [n for n in _named(matrices, shape.attention[-1]) if n not in taken]
    if shape.fused_attention:
        fused = [n for n in _named(matrices, shape.attention[0]) if n not in taken]
        return [fused[:layers], wide[:layers]]
    narrow_shape = (shape.key_rows, shape.hidden)[:: -1 if shape.flipped else 1]
    query_shape = (shape.query_rows, shape.hidden)[:: -1 if shape.flipped else 1]
    narrow = [n for n, info in matrices.items() if info.shape == narrow_shape and n not in taken]
    queries = [n for n, info in matrices.items() if info.shape == query_shape and n not in taken]
    scores = values.head_widths([[pool.rows[n]] for n in narrow], _widths(shape.key_rows))
    width = max(scores, key=lambda w: scores[w], default=0)
    group = shape.query_rows // shape.key_rows

    def pairs(many: Mapping[str, torch.Tensor], names: Sequence[str]) -> list[tuple[float, str, str]]:
        found = []
        for a in names:
            for b in narrow:
                other = pool.rows[b]
                if group > 1:
                    other = values.per_query(other, head_dim=width or 1, group=group, count=len(many[a]))
                if a != b:
                    found.append((values.alignment(many[a], other), a, b))
        return found

    heads = [(score, "qk", a, b) for score, a, b in pairs(pool.rows, queries)]
    heads += [(score, "ov", a, b) for score, a, b in pairs(pool.columns, [n for n in wide if n in pool.columns])]
    return _greedy(sorted(heads, reverse=True), layers)


def _widths(rows: int) -> list[int]:
    return [width for width in values.WIDTHS if rows % width == 0]


def _greedy(pairs: Sequence[tuple[float, str, str, str]], layers: int) -> list[list[str]]:
    """Pairs of partners, clearest first, each matrix once, as many of either sort as there are layers."""
    used: set[str] = set()
    chosen: dict[str, list[tuple[str, str]]] = {"qk": [], "ov": []}
    for _, sort, one, other in pairs:
        if one not in used and other not in used and len(chosen[sort]) < layers:
            chosen[sort].append((one, other))
            used |= {one, other}
    if any(len(found) < layers for found in chosen.values()):
        return []
    return [
        [query for query, _ in chosen["qk"]],
        [key for _, key in chosen["qk"]],
        [value for _, value in chosen["ov"]],
        [out for out, _ in chosen["ov"]],
    ]


def _grams(pool: Pool, names: Sequence[str], hidden: int) -> list[torch.Tensor]:
    """Where in the residual stream matrices read or write: Gram matrices of projected lines, trace removed."""
    projection = torch.eye(hidden)
    if hidden > PROJECTED:
        generator = torch.Generator().manual_seed(0)
        projection = torch.randn(hidden, PROJECTED, generator=generator) / PROJECTED**0.5
    grams = []
    for name in names:
        lines = pool.rows[name] if name in pool.rows else pool.columns[name]
        x = lines @ projection
        gram = x.T @ x
        gram = gram - torch.eye(len(gram)) * gram.diagonal().mean()
        grams.append((gram / gram.norm().clamp_min(1e-20)).flatten())
    return grams


def _linked(pool: Pool, attention: Sequence[list[str]], mlp: Sequence[list[str]], layers: int) -> list[list[str]]:
    """Attention columns reordered so that their layers are those of the MLP columns."""
    if not attention or not mlp or any(len(column) < layers for column in (*attention, *mlp)):
        return []
    hidden = next(iter((*pool.rows.values(), *pool.columns.values()))).shape[1]
    *reads, out = attention
    up = torch.stack(_grams(pool, mlp[-2], hidden))
    out_grams, value_grams = (torch.stack(_grams(pool, names, hidden)) for names in (out, reads[-1]))
    by_out = _assign(up @ out_grams.T)
    out, value = ([column[place] for place in by_out] for column in (out, reads[-1]))
    if len(reads) == 1:
        return [value, out]
    query_grams = torch.stack(_grams(pool, reads[0], hidden))
    by_value = _assign(value_grams[by_out] @ query_grams.T)
    return [[column[place] for place in by_value] for column in reads[:2]] + [value, out]


def _gains(
    checkpoint: Checkpoint, kinds: Sequence[Kind], shape: Shape, readers: int, hidden: int
) -> list[tuple[str, ...]]:
    """For attention and MLP, the gain each layer reads; by how columns of the readers grow with it."""
    vectors = [n for n, info in checkpoint.tensors.items() if info.shape == (hidden,)]
    gains = {n: x for n in vectors if values.is_gain(x := checkpoint.tensor(n).float())}
    layers = len(kinds[0].names) if kinds else 0
    if len(gains) < 2 * layers or not layers or len(kinds) <= readers:
        return []
    wanted = []
    for group in (kinds[:readers], kinds[readers + 1 : -1]):
        for layer in range(layers):
            norms = [values.column_norms(checkpoint, _oriented(kind, layer, shape.flipped)).log() for kind in group]
            wanted.append(torch.stack(norms).mean(dim=0).exp())
    scores = torch.tensor([[values.moves_with(gain, norm) for gain in gains.values()] for norm in wanted])
    names = list(gains)
    chosen = [names[column] for column in _assign(scores)]
    return [tuple(chosen[:layers]), tuple(chosen[layers:])]


def _oriented(kind: Kind, layer: int, flipped: bool) -> View:
    return View(kind.names[layer], kind.shape[::-1] if flipped else kind.shape, transpose=flipped)
