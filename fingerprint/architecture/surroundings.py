"""What stands around the layers, by shape and value: tables, the last norm, the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from fingerprint.checkpoint.interface import Checkpoint, TensorInfo

from . import resolve, values
from .grid import Kind, words_of
from .interface import Role, Slot, View

MAX_SEGMENTS = 16
"""Rows of a segment table; BERT has 2, RoBERTa 1."""

CLEAR_HEAD = 2.0
"""Least ratio of common directions of head and embedding (7 to 8 in trained families)."""


@dataclass
class Surroundings:
    """Slots outside the layers. ``post_norm``: they are those of a post-LN encoder."""

    slots: dict[Slot, View] = field(default_factory=dict)
    ambiguous: list[tuple[str, str]] = field(default_factory=list)
    post_norm: bool = False


def surroundings(checkpoint: Checkpoint, names: Sequence[str], hidden: int) -> Surroundings:
    """Roles of tensors outside the layers.

    Args:
        checkpoint: The first rows of embedding and head are read where both are there, and vectors.
        names: Stored names outside the layers.
        hidden: Width of the residual stream.

    Returns:
        Slots; what fits none is left out.
    """
    found = Surroundings()
    infos = [checkpoint.tensors[name] for name in names if checkpoint.tensors[name].dtype.is_floating_point]
    tables = sorted((i for i in infos if len(i.shape) == 2 and hidden in i.shape), key=lambda i: -i.numel)
    segments = [i for i in tables if _rows(i, hidden) <= MAX_SEGMENTS]
    tables = [i for i in tables if i not in segments]
    found.post_norm = len(segments) == 1
    for info in segments[:1]:
        found.slots[Slot(Role.TOKEN_TYPE)] = _table(info, hidden)
    _place_tables(found, checkpoint, tables, hidden)
    _place_vectors(found, checkpoint, [i for i in infos if len(i.shape) == 1], hidden)
    return found


def _rows(info: TensorInfo, hidden: int) -> int:
    return info.shape[0] if info.shape[1] == hidden else info.shape[1]


def _table(info: TensorInfo, hidden: int) -> View:
    rows = _rows(info, hidden)
    return View(info.name, (rows, hidden), transpose=info.shape[1] != hidden)


def _place_tables(found: Surroundings, checkpoint: Checkpoint, tables: list[TensorInfo], hidden: int) -> None:
    if not tables:
        return
    vocabulary = _rows(tables[0], hidden)
    wide = [info for info in tables if _rows(info, hidden) == vocabulary]
    if len(wide) == 2:
        embed, head, open_pairs = _embed_and_head(checkpoint, wide, hidden)
        found.slots[Slot(Role.HEAD)] = _table(head, hidden)
        found.ambiguous += open_pairs
    else:
        embed = wide[0]
    found.slots[Slot(Role.EMBED)] = _table(embed, hidden)
    rest = [info for info in tables if info not in wide and _rows(info, hidden) != hidden]
    if len(rest) == 1:
        found.slots[Slot(Role.POSITION)] = _table(rest[0], hidden)


def _embed_and_head(
    checkpoint: Checkpoint, wide: Sequence[TensorInfo], hidden: int
) -> tuple[TensorInfo, TensorInfo, tuple[tuple[str, str], ...]]:
    """The head's rows share a direction: every rare token is pushed down alike."""
    one, other = (values.first_rows(checkpoint, _table(info, hidden)) for info in wide)
    ratio = (values.common_direction(other) + 1e-6) / (values.common_direction(one) + 1e-6)
    if ratio >= CLEAR_HEAD:
        return wide[0], wide[1], ()
    if ratio <= 1 / CLEAR_HEAD:
        return wide[1], wide[0], ()
    kinds = [Kind(info.name, (info.name,), info.shape, words_of(info.name), place) for place, info in enumerate(wide)]
    said = resolve.by_words(kinds, (Role.EMBED, Role.HEAD))
    by_name = {info.name: info for info in wide}
    open_pairs = () if torch.equal(one, other) else said.ambiguous
    return by_name[said.roles[Role.EMBED].key], by_name[said.roles[Role.HEAD].key], open_pairs


def _place_vectors(found: Surroundings, checkpoint: Checkpoint, vectors: list[TensorInfo], hidden: int) -> None:
    """One gain, perhaps with a bias: the embedding's norm in post-LN encoders, else the last norm."""
    embed = found.slots.get(Slot(Role.EMBED))
    for info in vectors:
        if embed is not None and info.shape[0] == embed.shape[0] != hidden:
            found.slots.setdefault(Slot(Role.HEAD_BIAS), View(info.name, info.shape))
    wide = [info for info in vectors if info.shape[0] == hidden]
    gains = [info for info in wide if values.is_gain(checkpoint.tensor(info.name))]
    if not gains and len(wide) == 1:
        gains = wide
    if len(gains) != 1:
        return
    gain, bias = (Role.EMBED_NORM, Role.EMBED_NORM_BIAS) if found.post_norm else (Role.FINAL_NORM, Role.FINAL_NORM_BIAS)
    found.slots[Slot(gain)] = View(gains[0].name, gains[0].shape)
    rest = [info for info in wide if info is not gains[0]]
    beside = [info for info in rest if words_of(info.name)[:-1] == words_of(gains[0].name)[:-1] != ()]
    rest = beside if len(beside) == 1 else rest
    if len(rest) == 1:
        found.slots[Slot(bias)] = View(rest[0].name, rest[0].shape)
