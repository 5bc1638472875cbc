"""Norms and biases of layers whose names say nothing: vectors follow the matrices they stand by or are read by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fingerprint.checkpoint.interface import Checkpoint

from . import resolve, values
from .draft import Draft, Held
from .grid import Kind
from .interface import Role
from .resolve import Resolved
from .templates import Shape

READERS = {
    Role.NORM_ATTENTION: (Role.QUERY, Role.KEY, Role.VALUE),
    Role.NORM_MLP: (Role.GATE, Role.UP),
}
"""What reads a layer's norms where the norm comes first; post-LN encoders are the other way round."""

SANDWICH = (Role.NORM_ATTENTION, Role.NORM_POST_ATTENTION, Role.NORM_MLP, Role.NORM_POST_MLP)


def head_norms(vectors: Sequence[Kind], shape: Shape) -> list[Kind]:
    """Two vectors of one length that cuts queries and keys into heads: query and key norms."""
    lengths: dict[int, list[Kind]] = defaultdict(list)
    for kind in vectors:
        lengths[kind.shape[0]].append(kind)
    taken = {shape.hidden, shape.query_rows, shape.key_rows, shape.intermediate}
    for length, kinds in lengths.items():
        whole = length > 1 and shape.query_rows % length == 0 and shape.key_rows % length == 0
        if len(kinds) == 2 and whole and length not in taken:
            return kinds
    return []


def place_vectors(
    draft: Draft, checkpoint: Checkpoint, vectors: Sequence[Kind], shape: Shape, *, post_norm: bool
) -> None:
    """Biases by the parent they share with a matrix, gains by what reads them, a gain's bias by its parent.

    Args:
        draft: Has the matrices; gets the vectors.
        checkpoint: Vectors are read whole, and readers of gains on a few layers.
        vectors: Kinds of rank 1, head norms left out.
        shape: Sizes of the layer.
        post_norm: Norms come after the sum.
    """
    siblings: dict[tuple[str, ...], list[Kind]] = defaultdict(list)
    for kind in vectors:
        siblings[kind.parent].append(kind)
    free = [kind for kind in vectors if not _place_bias(draft, kind, siblings[kind.parent], shape)]
    free = [kind for kind in free if kind.shape[0] == shape.hidden]
    gains = [k for k in free if values.is_gain(checkpoint.tensor(k.names[len(k.names) // 2]))]
    if not gains and len(free) in (2, 4):
        gains = free  # Gemma stores a gain less one
    _place_gains(draft, checkpoint, gains, post_norm)
    for kind in free:
        partners = [g for g in siblings[kind.parent] if g in gains and kind.parent]
        if kind not in gains and len(partners) == 1 and (held := draft.biases_of(partners[0])):
            draft.place(kind, held)


def _place_bias(draft: Draft, vector: Kind, siblings: Sequence[Kind], shape: Shape) -> bool:
    """Place a vector as the bias of the one matrix with its parent; False where there is none."""
    owners = [k for k in (*shape.attention, *shape.mlp) if k.parent == vector.parent and vector.parent]
    if len(owners) != 1 or len(siblings) != 1:
        return False
    rows = owners[0].shape[1] if shape.flipped else owners[0].shape[0]
    held = draft.biases_of(owners[0])
    if rows != vector.shape[0] or held is None:
        return False
    draft.place(vector, held)
    return True


def _place_gains(draft: Draft, checkpoint: Checkpoint, gains: Sequence[Kind], post_norm: bool) -> None:
    if len(gains) == 1:
        draft.place(gains[0], Held((Role.NORM_ATTENTION,)))
    elif len(gains) == 2:
        draft.accept(_two_gains(draft, checkpoint, gains, post_norm))
    elif len(gains) == 4:
        draft.accept(resolve.by_words(gains, SANDWICH))


def _two_gains(draft: Draft, checkpoint: Checkpoint, gains: Sequence[Kind], post_norm: bool) -> Resolved:
    roles = (Role.NORM_ATTENTION, Role.NORM_MLP)
    reads = (READERS[Role.NORM_MLP], READERS[Role.NORM_ATTENTION]) if post_norm else tuple(READERS[r] for r in roles)
    layers = values.spread(len(gains[0].names))
    if post_norm:  # what follows the last layer's second norm is not there to be looked at
        layers = layers[:-1] or layers
    first = [draft.views(reads[0], layer)[:3] for layer in layers]
    second = [draft.views(reads[1], layer + 1 if post_norm else layer)[:3] for layer in layers]
    return resolve.gains(checkpoint, gains, layers, (first, second), roles)
