"""Roles: what a tensor does in its model, told apart from what it is called.

A ``Layout`` maps slots (role, layer, expert) to views of stored tensors. A view knows how to cut and orient its
tensor so that every family reads the same: matrices are (out x in), fused projections are split, packed experts are
unpacked, and query/key rows lie head by head in the half-split RoPE order of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import torch


class Role(StrEnum):
    """What a tensor does. Biases carry the same stem with ``_bias``."""

    EMBED = "embed"  # (vocab x d)
    POSITION = "position"  # learned absolute positions (p x d)
    TOKEN_TYPE = "token_type"  # noqa: S105 - BERT segment embeddings, not a secret
    EMBED_NORM = "embed_norm"
    EMBED_NORM_BIAS = "embed_norm_bias"
    HEAD = "head"  # (vocab x d); absent when tied
    HEAD_BIAS = "head_bias"
    FINAL_NORM = "final_norm"
    FINAL_NORM_BIAS = "final_norm_bias"
    NORM_ATTENTION = "norm_attention"  # g1: read before attention (post-LN families: applied after it)
    NORM_ATTENTION_BIAS = "norm_attention_bias"
    NORM_MLP = "norm_mlp"  # g2
    NORM_MLP_BIAS = "norm_mlp_bias"
    NORM_POST_ATTENTION = "norm_post_attention"  # Gemma 2/3: second norm on the branch's output
    NORM_POST_MLP = "norm_post_mlp"
    QUERY = "query"  # (heads*dh x d)
    QUERY_BIAS = "query_bias"
    KEY = "key"  # (kv_heads*dh x d)
    KEY_BIAS = "key_bias"
    VALUE = "value"
    VALUE_BIAS = "value_bias"
    OUT = "out"  # (d x heads*dh)
    OUT_BIAS = "out_bias"
    QUERY_NORM = "query_norm"  # (dh)
    KEY_NORM = "key_norm"
    GATE = "gate"  # (I x d); absent in plain MLPs
    GATE_BIAS = "gate_bias"
    UP = "up"  # (I x d); a plain MLP's first matrix
    UP_BIAS = "up_bias"
    DOWN = "down"  # (d x I)
    DOWN_BIAS = "down_bias"
    ROUTER = "router"  # (experts x d)
    SHARED_GATE = "shared_gate"  # Qwen-MoE's gate of the shared expert (1 x d)
    OTHER = "other"  # generic path: stands under its own (canonicalised) name


class Slot(NamedTuple):
    """A place in the model. ``layer`` and ``expert`` are -1 where they do not apply; ``name`` only for OTHER.

    The shared expert of Qwen-MoE has expert = SHARED_EXPERT.
    """

    role: Role
    layer: int = -1
    expert: int = -1
    name: str = ""


SHARED_EXPERT = 1_000_000


@dataclass(frozen=True)
class View:
    """How a slot is cut out of a stored tensor.

    Applied in this order: ``index`` selects along the first axis (packed experts), ``transpose`` swaps the last two
    axes, ``rows`` selects rows by start/stop, or ``order`` gathers them (interleaved fused layouts).

    Attributes:
        tensor: Name of the stored tensor.
        shape: Shape of the result.
        index: Which entry of a packed (experts first) tensor.
        transpose: Stored (in x out), as GPT-2's Conv1D does.
        rows: (start, stop) rows of the oriented matrix.
        order: Explicit row order of the oriented matrix, for interleaved layouts.
    """

    tensor: str
    shape: tuple[int, ...]
    index: int | None = None
    transpose: bool = False
    rows: tuple[int, int] | None = None
    order: tuple[int, ...] | None = None

    @property
    def whole(self) -> bool:
        """Whether the view is the stored tensor as it lies."""
        return self.index is None and not self.transpose and self.rows is None and self.order is None

    def cut(self, stored: torch.Tensor) -> torch.Tensor:
        """The slot's tensor out of the whole stored one (a view where torch can make one)."""
        x = stored if self.index is None else stored[self.index]
        x = x.transpose(-1, -2) if self.transpose else x
        if self.order is not None:
            x = x[torch.tensor(self.order)]
        elif self.rows is not None:
            x = x[self.rows[0] : self.rows[1]]
        return x.reshape(self.shape)


class Norm(StrEnum):
    """Kind of normalisation; decides which symmetries exist (2-weights section 4)."""

    RMS = "rms"
    RMS_OFFSET = "rms_offset"  # Gemma: gain is 1 + weight
    LAYER = "layer"
    NONE = "none"


class Positions(StrEnum):
    """How positions enter; decides which query/key symmetries exist."""

    ROPE = "rope"
    LEARNED = "learned"
    OTHER = "other"


@dataclass(frozen=True)
class Dims:
    """Sizes, from shapes where they can be had. Zero means not applicable."""

    hidden: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    vocab: int = 0
    experts: int = 0


@dataclass(frozen=True)
class Layout:
    """What a checkpoint is, slot by slot.

    Attributes:
        family: ``decoder`` (Llama/Mistral/Qwen/Gemma, MoE included), ``gpt2``, ``neox``, ``bert`` or ``generic``.
        dims: Sizes.
        norm: Kind of norm in the blocks.
        positions: How positions enter.
        pre_norm: Norm before the branch (True) or after the sum (post-LN BERT).
        gated: SwiGLU-type MLP (gate, up, down).
        tied: The head is the embedding.
        rotary_dim: Leading dims of a head that RoPE turns (= head_dim for Llama; 0 without RoPE).
        slots: Slot to View; every stored tensor appears in at least one view.
        source: What told roles apart: ``config``, ``names`` or ``shapes``.
        ambiguous: Pairs of roles that shapes alone could not tell apart, e.g. ``("gate", "up")``.
        notes: Things worth saying (``config contradicts shapes: hidden_size 4096, found 2048``).
    """

    family: str
    dims: Dims
    norm: Norm
    positions: Positions
    slots: Mapping[Slot, View]
    pre_norm: bool = True
    gated: bool = False
    tied: bool = False
    rotary_dim: int = 0
    source: str = "names"
    ambiguous: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())

    def layer(self, index: int) -> dict[Slot, View]:
        """The slots of one layer."""
        return {slot: view for slot, view in self.slots.items() if slot.layer == index}
