"""Head geometry by values, where the config is silent or lies.

The number of heads is in no shape. A config that states a wrong one which divides would cut every head in the wrong
place, and hide a copy with permuted heads; so what it states is held against the values' rows. Meta's release of Llama
keeps rotary pairs side by side under names that others use for the half-split order; values decide that too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fingerprint.checkpoint.interface import Checkpoint

from . import values
from .config import Hints
from .interface import Role, Slot, View
from .named import Named, by_names

GLANCE = 2
"""Layers looked at when a config is only checked; all of ``values.LAYERS`` when it says nothing."""

GLANCE_LINES = 512

OVERRULED = 1.2
"""A config's width is overruled when another has this many times its contrast (2.3 and more in trained families)."""

PAIRED = 2.0
"""Least lead, in z, of neighbouring over half-split rotary pairs (-1 to -4 on half-split families)."""


def settle(checkpoint: Checkpoint, hints: Hints, named: Named) -> Named:
    """Roles by name again, with head geometry and rotary order that values bear out.

    Args:
        checkpoint: Value rows of a few layers are read; queries and keys only where rotary order is open.
        hints: Claims of the config.
        named: Roles by name.

    Returns:
        Roles by name under the geometry that values speak for, with what contradicted it.
    """
    if named.heads_open:
        named = _try_widths(checkpoint, hints, named)
    elif not named.per_head_norms:
        named = _check(checkpoint, hints, named)
    if named.rope_open and _neighbours(checkpoint, named):
        again = by_names(checkpoint.tensors, _with_width(hints, named.heads.head_dim), neighbours=True)
        named = replace(again, notes=(*named.notes, "rotary pairs lie side by side"))
    return named


def width_scores(
    checkpoint: Checkpoint, slots: Mapping[Slot, View], layers: Sequence[int], most: int = values.LINES
) -> dict[int, float]:
    """How much heads of every width stand out in values and keys, and in queries where each has its own key."""
    found = {role: _views(slots, role, layers) for role in (Role.VALUE, Role.KEY, Role.QUERY)}
    if not found[Role.VALUE]:
        return {}
    rows = found[Role.VALUE][0].shape[0]
    equal = [views for views in found.values() if views and views[0].shape[0] == rows]
    widths = [w for w in values.WIDTHS if rows % w == 0]
    return values.head_widths(
        ((values.lines(checkpoint, view, most=most) for view in views) for views in equal), widths
    )


def _views(slots: Mapping[Slot, View], role: Role, layers: Sequence[int]) -> list[View]:
    views = (slots.get(Slot(role, layer)) for layer in layers)
    return [view for view in views if view is not None and len(view.shape) == 2]


def clear_width(scores: Mapping[int, float]) -> int:
    """The width with the largest contrast, if it is clear; else 0."""
    width = max(scores, key=lambda w: scores[w], default=0)
    return width if scores.get(width, 0.0) >= values.CLEAR else 0


def _with_width(hints: Hints, width: int) -> Hints:
    return replace(hints, heads=0, kv_heads=0, head_dim=width)


def _check(checkpoint: Checkpoint, hints: Hints, named: Named) -> Named:
    """Overrule or fill in the width where the projections are separate or stacked."""
    claimed = named.heads.head_dim
    glance = values.spread(named.layers, GLANCE)
    scores = width_scores(checkpoint, named.slots, glance, GLANCE_LINES) if claimed else {}
    found = clear_width(scores)
    if not claimed or found not in (0, claimed):
        scores = width_scores(checkpoint, named.slots, values.spread(named.layers))
        found = clear_width(scores)
    if not found or found == claimed:
        return named
    if claimed and scores[found] < OVERRULED * max(scores.get(claimed, 0.0), values.CLEAR):
        return named
    again = by_names(checkpoint.tensors, _with_width(hints, found))
    if not again.heads.head_dim:
        return named
    said = f"config contradicts values: head_dim got {claimed}, expected {found}" if claimed else ""
    return replace(again, notes=(*named.notes, *([said] if said else [])))


def _try_widths(checkpoint: Checkpoint, hints: Hints, named: Named) -> Named:
    """Grouped projections cannot even be cut without a width: cut by every width, keep the one values bear out."""
    best, chosen = values.CLEAR, named
    for width in values.WIDTHS:
        cut = by_names(checkpoint.tensors, _with_width(hints, width))
        if cut.heads.head_dim == width and not cut.heads_open:
            scores = width_scores(checkpoint, cut.slots, values.spread(cut.layers, GLANCE))
            if scores.get(width, 0.0) > best:
                best, chosen = scores[width], replace(cut, notes=named.notes)
    return chosen


def _neighbours(checkpoint: Checkpoint, named: Named) -> bool:
    """Whether query and key rows of a rotary pair lie side by side rather than half a head apart."""
    heads = named.heads
    if not heads.head_dim or heads.head_dim % 2:
        return False
    lead, count = 0.0, 0
    for layer in values.spread(named.layers):
        views = [named.slots.get(Slot(role, layer)) for role in (Role.QUERY, Role.KEY)]
        if views[0] is not None and views[1] is not None:
            query, key = (values.lines(checkpoint, view) for view in views if view is not None)
            group = heads.heads // heads.kv_heads
            key = values.per_query(key, head_dim=heads.head_dim, group=group, count=len(query))
            lead += values.pair_lead(query[: len(key)], key, heads.head_dim)
            count += 1
    return count > 0 and lead / count**0.5 >= PAIRED
