"""Roles without names: shapes propose, values decide.

For checkpoints whose names say nothing or contradict shapes. A stack of layers is found by numbers or by order
(``grid``), its matrices are matched with a transformer's (``templates``), equals are told apart (``resolve``), and
vectors follow the matrices they stand by (``vectors``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fingerprint.checkpoint.interface import Checkpoint, TensorInfo

from . import resolve, values
from .config import Hints
from .cutting import Heads
from .draft import Draft, Held
from .experts import find_experts, place_experts
from .geometry import clear_width, width_scores
from .grid import Grid, Kind
from .heads import solve_heads
from .interface import SHARED_EXPERT, Role
from .named import Named
from .resolve import Weights
from .surroundings import surroundings
from .templates import Shape, fits
from .vectors import head_norms, place_vectors

FUSED = (Role.QUERY, Role.KEY, Role.VALUE)


def by_shapes(checkpoint: Checkpoint, hints: Hints, grid: Grid) -> Named | None:
    """Roles of a stack found by numbers or order.

    Args:
        checkpoint: Matrices of some layers are read where shapes leave roles open.
        hints: Claims of the config.
        grid: Kinds by layers.

    Returns:
        None where the shapes are not a transformer's.
    """
    hidden = common_width(checkpoint.tensors)
    experts = find_experts(grid, hidden)
    lone = [kind for kind in grid.kinds if kind.shape == (1, hidden)] if experts.count else []
    loose = [kind for kind in grid.kinds if kind not in experts.members and kind not in lone]
    matrices = [kind for kind in loose if len(kind.shape) == 2 and hidden in kind.shape]
    solutions = fits(matrices, hidden, experts=experts.count > 0)
    if not solutions:
        return None
    shape, draft = solutions[0], Draft()
    weights = Weights(checkpoint, shape.flipped, values.spread(grid.layers))
    vectors = [kind for kind in loose if len(kind.shape) == 1]
    per_head = head_norms(vectors, shape)
    around = surroundings(checkpoint, grid.rest, hidden)
    heads = _place_attention(draft, weights, shape, hints, per_head)
    _place_mlp(draft, weights, shape, expert=SHARED_EXPERT if experts.count else -1)
    place_experts(draft, weights, experts, hidden)
    for kind in lone[:1]:
        draft.place(kind, Held((Role.SHARED_GATE,)))
    rest = [kind for kind in vectors if kind not in per_head]
    place_vectors(draft, checkpoint, rest, shape, post_norm=around.post_norm)
    return Named(
        slots=draft.slots | around.slots,
        heads=heads,
        hidden=hidden,
        layers=grid.layers,
        post_norm=around.post_norm,
        notes=tuple(draft.notes),
        ambiguous=tuple(
            dict.fromkeys([*draft.open_pairs, *around.ambiguous, *([("layer", "layer")] if grid.bag else [])])
        ),
        source="shapes",
    )


def common_width(tensors: Mapping[str, TensorInfo]) -> int:
    """Width of the residual stream: the axis that most matrices and vectors have."""
    votes: Counter[int] = Counter()
    for info in tensors.values():
        if info.dtype.is_floating_point:
            votes.update(set(info.shape[-2:]))
    return votes.most_common(1)[0][0] if votes else 0


def _place_attention(draft: Draft, weights: Weights, shape: Shape, hints: Hints, per_head: Sequence[Kind]) -> Heads:
    sizes = {
        "query_rows": shape.query_rows,
        "key_rows": shape.key_rows,
        "norm_length": per_head[0].shape[0] if per_head else 0,
    }
    heads, notes = solve_heads(hints, **sizes)
    if shape.fused_attention:
        fused, out = shape.attention
        draft.place(out, Held((Role.OUT,)), flipped=shape.flipped)
        rows = (shape.query_rows, shape.key_rows, shape.key_rows)
        draft.place(fused, Held(FUSED, rows), flipped=shape.flipped)
        draft.notes.append("fused projection taken as stacked")
    else:
        certain = heads.head_dim if per_head else 0
        draft.accept(resolve.attention(weights, shape, certain, heads.head_dim), flipped=shape.flipped)
    if per_head:
        draft.accept(resolve.by_words(per_head, (Role.QUERY_NORM, Role.KEY_NORM)))
    elif width := clear_width(width_scores(weights.checkpoint, draft.slots, weights.layers)):
        if heads.head_dim not in (0, width):
            draft.notes.append(f"config contradicts values: head_dim got {heads.head_dim}, expected {width}")
        heads, notes = solve_heads(replace(hints, heads=0, head_dim=width), **sizes)
    draft.notes += notes
    return heads


def _place_mlp(draft: Draft, weights: Weights, shape: Shape, *, expert: int) -> None:
    if not shape.mlp:
        return
    *readers, down = shape.mlp
    draft.place(down, Held((Role.DOWN,)), flipped=shape.flipped, expert=expert)
    if shape.fused_mlp:
        held = Held((Role.GATE, Role.UP), (shape.intermediate, shape.intermediate))
        draft.place(readers[0], held, flipped=shape.flipped, expert=expert)
    elif len(readers) == 2:
        draft.accept(resolve.gate_and_up(weights, readers), flipped=shape.flipped, expert=expert)
    else:
        draft.place(readers[0], Held((Role.UP,)), flipped=shape.flipped, expert=expert)
