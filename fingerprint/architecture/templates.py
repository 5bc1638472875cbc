"""Which matrices of a layer can be which: a transformer's shapes, solved for its sizes.

A layer has an attention (queries, keys, values, output) and an MLP (gate, up, down; or up, down; or experts). Readers
of the residual stream are (rows x d), writers (d x rows). Given only the shapes, few assignments fit, and usually one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from .grid import Kind

MAX_MATRICES = 10
"""More kinds of matrices than any known layer has: not a layer, and not worth a search."""


@dataclass(frozen=True)
class Shape:
    """An assignment of a layer's matrices by shape alone; kinds of one group cannot be told apart by it.

    Attributes:
        flipped: Matrices lie (in x out).
        attention: Kinds of query, key, value and output; two (fused, output) where ``fused_attention``.
        mlp: Kinds of gate, up and down (or up and down; or fused and down).
        query_rows: heads * head_dim.
        key_rows: kv_heads * head_dim.
        intermediate: Units of the MLP.
        hidden: Width of the residual stream.
        fused_attention: Query, key and value are one tensor.
        fused_mlp: Gate and up are one tensor.
    """

    flipped: bool
    attention: tuple[Kind, ...]
    mlp: tuple[Kind, ...]
    query_rows: int
    key_rows: int
    intermediate: int
    hidden: int
    fused_attention: bool = False
    fused_mlp: bool = False


def fits(kinds: Sequence[Kind], hidden: int, *, experts: bool) -> list[Shape]:
    """Every way in which ``kinds`` are the matrices of one layer, likeliest first.

    Args:
        kinds: Kinds of rank 2 that have an axis of width ``hidden`` (routers and experts left out).
        hidden: Width of the residual stream.
        experts: The MLP is elsewhere: attention only, or with a shared expert.

    Returns:
        Assignments; none where the shapes are not a transformer's.
    """
    if not 2 <= len(kinds) <= MAX_MATRICES:
        return []
    found: list[Shape] = []
    for flipped in (False, True):
        found += list(_orientation(kinds, hidden, flipped, experts))
    return sorted(found, key=_preference)


def _preference(shape: Shape) -> tuple[bool, bool, bool, bool]:
    """Linear layout before Conv1D, separate before fused, an MLP that is wider than the attention."""
    return shape.flipped, shape.fused_attention, shape.intermediate < shape.query_rows, shape.fused_mlp


def _orientation(kinds: Sequence[Kind], hidden: int, flipped: bool, experts: bool) -> Iterator[Shape]:
    shapes = {kind: kind.shape[::-1] if flipped else kind.shape for kind in kinds}
    writers = _distinct([kind for kind in kinds if shapes[kind][0] == hidden], shapes)
    for out in writers:
        left = [kind for kind in kinds if kind is not out]
        if experts:
            yield from _attention(shapes, out, left, (), hidden, flipped)
        for down in _distinct([kind for kind in left if shapes[kind][0] == hidden], shapes):
            readers = [kind for kind in left if kind is not down]
            if all(shapes[kind][1] == hidden for kind in readers):
                yield from _readers(shapes, out, down, readers, hidden, flipped)


def _distinct(kinds: Sequence[Kind], shapes: dict[Kind, tuple[int, ...]]) -> list[Kind]:
    """One kind of every shape: the others are tried by value later."""
    return list({shapes[kind]: kind for kind in reversed(kinds)}.values())


def _readers(
    shapes: dict[Kind, tuple[int, ...]], out: Kind, down: Kind, readers: list[Kind], hidden: int, flipped: bool
) -> Iterator[Shape]:
    """Split the readers into those of the MLP, which must match ``down``, and those of the attention."""
    units = shapes[down][1]
    seen: set[tuple[int, ...]] = set()
    for count, rows in ((2, units), (1, units), (1, 2 * units)):
        fitting = [kind for kind in readers if shapes[kind][0] == rows]
        for chosen in combinations(fitting, count):
            mark = (count, rows)
            if mark in seen:
                break
            seen.add(mark)
            left = [kind for kind in readers if kind not in chosen]
            yield from _attention(shapes, out, left, (*chosen, down), hidden, flipped, units, rows != units)


def _attention(
    shapes: dict[Kind, tuple[int, ...]],
    out: Kind,
    readers: list[Kind],
    mlp: tuple[Kind, ...],
    hidden: int,
    flipped: bool,
    units: int = 0,
    fused_mlp: bool = False,
) -> Iterator[Shape]:
    """Check that ``readers`` are queries, keys and values for ``out``."""
    queries = shapes[out][1]
    if any(shapes[kind][1] != hidden for kind in readers):
        return
    rows = Counter(shapes[kind][0] for kind in readers)
    if len(readers) == 1:
        keys, odd = divmod(shapes[readers[0]][0] - queries, 2)
        if not odd and 0 < keys <= queries and queries % keys == 0:
            yield Shape(flipped, (*readers, out), mlp, queries, keys, units, hidden, True, fused_mlp)
    elif len(readers) == 3 and rows[queries]:
        rows[queries] -= 1
        keys = next(iter(rows.elements()))
        if rows[keys] == 2 and keys <= queries and queries % keys == 0:
            yield Shape(flipped, (*readers, out), mlp, queries, keys, units, hidden, False, fused_mlp)
