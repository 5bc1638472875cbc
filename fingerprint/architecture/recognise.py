"""Say what a checkpoint is: names and config where they agree with shapes, names alone, then shapes and values.

A copier controls every name and every config field, and shapes only as far as the model still has to run. So trust
goes the other way round: shapes overrule the config, and names count only where shapes bear them out. Whatever stays
unknown is kept under its own name (``Role.OTHER``), so that nothing stored ever escapes comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

import torch

from fingerprint.checkpoint.interface import Checkpoint, TensorInfo

from .bag import bag_grid
from .config import QUARTER_ROTARY, Hints, read_hints
from .geometry import settle
from .grid import Grid, find_grid
from .interface import Dims, Layout, Norm, Positions, Role, Slot, View
from .named import Named, by_names
from .reading import read
from .unnamed import by_shapes, common_width

CORE = frozenset({Role.QUERY, Role.KEY, Role.VALUE, Role.OUT, Role.UP, Role.DOWN})
"""Roles without which a layer is not a transformer's."""

LEAST_TRUE = 0.5
"""Names are believed when at least this share of the parameters they name has a shape that agrees."""


GLANCE = 4
"""Rows compared first when asking whether a stored head is the embedding."""


def recognise(checkpoint: Checkpoint) -> Layout:
    """The layout of a checkpoint; never raises for a strange one.

    Args:
        checkpoint: Opened checkpoint. Norm vectors are read, and of the head only what settles whether it is tied.

    Returns:
        Layout whose views partition the stored parameters: each stored element lies in exactly one view.
    """
    hints = read_hints(checkpoint.config)
    named = by_names(checkpoint.tensors, hints)
    if _believable(named, checkpoint.tensors):
        return _layout(checkpoint, hints, settle(checkpoint, hints, named))
    for grid in _grids(checkpoint):
        unnamed = by_shapes(checkpoint, hints, grid)
        if unnamed is not None:
            return _layout(checkpoint, hints, unnamed)
    return _generic(checkpoint)


def _grids(checkpoint: Checkpoint) -> Iterator[Grid]:
    """Stacks of layers without names: by numbers or order, then by values."""
    found = find_grid(checkpoint.tensors)
    if found is not None:
        yield found
    by_values = bag_grid(checkpoint, common_width(checkpoint.tensors))
    if by_values is not None:
        yield by_values


def _believable(named: Named, tensors: Mapping[str, TensorInfo]) -> bool:
    """Whether names gave at least one whole layer, and mostly tell the truth."""
    present = Counter(slot.layer for slot in {Slot(s.role, s.layer) for s in named.slots if s.role in CORE})
    if not present or max(present.values()) < len(CORE):
        return False
    told = sum(tensors[name].numel for name in {view.tensor for view in named.slots.values()})
    refused = sum(tensors[name].numel for name in named.refused)
    return told * (1 - LEAST_TRUE) >= refused * LEAST_TRUE


def _layout(checkpoint: Checkpoint, hints: Hints, named: Named) -> Layout:
    slots = dict(named.slots)
    slots |= _rest(checkpoint.tensors, slots.values(), named.prefix)
    roles = {slot.role for slot in slots}
    dims = _dims(slots, named)
    notes = [
        *named.notes,
        *(f"name contradicts shape: {name}" for name in named.refused),
        *_contradictions(hints, dims),
    ]
    norm = _norm(checkpoint, hints, roles)
    positions = _positions(hints, roles)
    tied, tie_note = _tied(checkpoint, slots, named)
    notes += tie_note
    if not dims.heads and Role.QUERY in roles:
        notes.append("number of heads is not known")
    rotary, rotary_note = _rotary(hints, dims, positions)
    notes += rotary_note
    if Role.NORM_MLP not in roles and Role.NORM_POST_MLP not in roles and norm is not Norm.NONE:
        notes.append("parallel residual: one norm feeds attention and MLP")
    return Layout(
        family=_family(named, roles, norm),
        dims=dims,
        norm=norm,
        positions=positions,
        slots=slots,
        pre_norm=not named.post_norm,
        gated=Role.GATE in roles,
        tied=tied,
        rotary_dim=rotary,
        ambiguous=named.ambiguous,
        source=named.source
        if named.source != "names"
        else "config"
        if hints != Hints() and not any("config contradicts" in n for n in notes)
        else "names",
        notes=tuple(notes),
    )


def _rest(tensors: Mapping[str, TensorInfo], used: Iterable[View], prefix: str) -> dict[Slot, View]:
    """Every tensor no slot has taken, under its own name less the wrapper's prefix where that stays unique."""
    taken = {view.tensor for view in used}
    left = [name for name in tensors if name not in taken]
    short = Counter(_canonical(name, prefix) for name in left)
    return {
        Slot(Role.OTHER, name=own if short[own] == 1 else name): View(name, tensors[name].shape)
        for name in left
        for own in (_canonical(name, prefix),)
    }


def _canonical(name: str, prefix: str) -> str:
    """``name`` less the leading components it shares with the stack's prefix (``bert.`` of ``bert.encoder.``)."""
    parts, stack = name.split("."), prefix.split(".")[:-1]
    if stack and stack[-1] in ("encoder", "decoder"):
        stack = stack[:-1]
    if len(parts) > len(stack) and parts[: len(stack)] == stack:
        return ".".join(parts[len(stack) :])
    return name


def _dims(slots: Mapping[Slot, View], named: Named) -> Dims:
    def first(role: Role, axis: int) -> int:
        return next((v.shape[axis] for s, v in slots.items() if s.role is role and len(v.shape) == 2), 0)

    experts = {slot.expert for slot in slots if slot.role is Role.DOWN and 0 <= slot.expert < 1_000_000}
    return Dims(
        hidden=named.hidden,
        layers=named.layers,
        heads=named.heads.heads,
        kv_heads=named.heads.kv_heads,
        head_dim=named.heads.head_dim,
        intermediate=first(Role.DOWN, 1),
        vocab=first(Role.EMBED, 0) or first(Role.HEAD, 0),
        experts=len(experts),
    )


def _contradictions(hints: Hints, dims: Dims) -> list[str]:
    """Config fields that shapes refute (head counts are judged where they are solved)."""
    notes = []
    for field in fields(Dims):
        if field.name in ("heads", "kv_heads", "head_dim") or (field.name == "intermediate" and dims.experts):
            continue
        claim, found = getattr(hints, field.name), getattr(dims, field.name)
        if claim and found and claim != found:
            notes.append(f"config contradicts shapes: {field.name} got {claim}, expected {found}")
    return notes


def _norm(checkpoint: Checkpoint, hints: Hints, roles: set[Role]) -> Norm:
    if not roles & {Role.NORM_ATTENTION, Role.NORM_MLP, Role.NORM_POST_ATTENTION, Role.FINAL_NORM}:
        return Norm.NONE
    if roles & {Role.NORM_ATTENTION_BIAS, Role.NORM_MLP_BIAS, Role.FINAL_NORM_BIAS, Role.EMBED_NORM_BIAS}:
        return Norm.LAYER
    if Role.GATE not in roles and Role.UP in roles:
        return Norm.LAYER  # no family has a plain MLP under an RMS norm
    return Norm.RMS_OFFSET if hints.offset_gains and checkpoint.format != "gguf" else Norm.RMS


def _positions(hints: Hints, roles: set[Role]) -> Positions:
    if Role.POSITION in roles:
        return Positions.LEARNED
    return Positions.ROPE if hints.rotary and Role.EMBED_NORM not in roles else Positions.OTHER


def _rotary(hints: Hints, dims: Dims, positions: Positions) -> tuple[int, list[str]]:
    """Leading dims of a head that turn; a fraction the config does not state is the family's default."""
    if positions is not Positions.ROPE or not dims.head_dim:
        return 0, []
    if hints.rotary_dim and hints.rotary_dim <= dims.head_dim:
        return hints.rotary_dim - hints.rotary_dim % 2, []
    fraction = hints.rotary_fraction or (0.25 if hints.model_type in QUARTER_ROTARY else 1.0)
    turned = int(dims.head_dim * fraction)
    return turned - turned % 2, []


def _family(named: Named, roles: set[Role], norm: Norm) -> str:
    if named.post_norm:
        return "bert"
    if named.fused:
        return "neox"
    if norm is Norm.LAYER and Role.GATE not in roles:
        return "gpt2" if Role.POSITION in roles else "neox"
    return "decoder"


def _tied(checkpoint: Checkpoint, slots: Mapping[Slot, View], named: Named) -> tuple[bool, list[str]]:
    """Whether the head is the embedding: not stored, or stored twice with equal values."""
    embed, head = slots.get(Slot(Role.EMBED)), slots.get(Slot(Role.HEAD))
    if embed is None:
        return False, []
    if head is None:
        return (not named.post_norm) or Slot(Role.HEAD_BIAS) in slots, []
    if head.shape != embed.shape or not _equal(checkpoint, embed, head):
        return False, []
    return True, ["head stored although equal to the embedding"]


def _equal(checkpoint: Checkpoint, one: View, other: View) -> bool:
    """Whether two views hold equal values; stops at the first block that differs."""
    if one.whole and other.whole:
        first = (next(iter(checkpoint.blocks(view.tensor, GLANCE))).clone().float() for view in (one, other))
        if not torch.equal(*first):
            return False
        pairs = zip(checkpoint.blocks(one.tensor), checkpoint.blocks(other.tensor), strict=True)
        return all(torch.equal(a.float(), b.float()) for a, b in pairs)
    return torch.equal(read(checkpoint, one).float(), read(checkpoint, other).float())


def _generic(checkpoint: Checkpoint) -> Layout:
    """Every tensor under its own name: convolutions, recurrent nets, anything."""
    slots = {Slot(Role.OTHER, name=name): View(name, info.shape) for name, info in checkpoint.tensors.items()}
    return Layout("generic", Dims(), Norm.NONE, Positions.OTHER, slots, pre_norm=False, source="names")
