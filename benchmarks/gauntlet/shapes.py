"""The architectures of the trained families, at three sizes: ``test``, ``calibration`` and ``quick``.

The two measured splits differ in width, depth, head size, vocabulary and seeds, so that a threshold found on one has
to hold on other shapes, not only on other draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

POSITIONS = 256


@dataclass(frozen=True)
class Size:
    """Dimensions shared by every family of a split.

    Attributes:
        vocabulary: Token rows.
        width: Residual width.
        layers: Depth.
        heads: Query heads; key-value heads are half of them where the family groups.
        units: MLP units (experts have half as many).
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    units: int


SIZES = {
    "test": Size(vocabulary=2048, width=128, layers=4, heads=4, units=352),
    "calibration": Size(vocabulary=1536, width=96, layers=3, heads=4, units=272),
    "quick": Size(vocabulary=1024, width=64, layers=2, heads=4, units=176),
}


def _decoder(size: Size) -> dict[str, Any]:
    return {
        "vocab_size": size.vocabulary,
        "hidden_size": size.width,
        "intermediate_size": size.units,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads // 2,
        "max_position_embeddings": POSITIONS,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }


def _qwen3(size: Size) -> Any:
    return Qwen3ForCausalLM(Qwen3Config(**_decoder(size), head_dim=size.width // size.heads, tie_word_embeddings=False))


def _llama(size: Size) -> Any:
    return LlamaForCausalLM(LlamaConfig(**_decoder(size), tie_word_embeddings=False))


def _gpt2(size: Size) -> Any:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size.vocabulary,
            n_embd=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            n_positions=POSITIONS,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def _mixtral(size: Size) -> Any:
    shape = _decoder(size) | {"intermediate_size": size.units // 2}
    return MixtralForCausalLM(
        MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False)
    )


def _qwen2(size: Size) -> Any:
    return Qwen2ForCausalLM(Qwen2Config(**_decoder(size), tie_word_embeddings=True))


BUILDERS = {
    "qwen3": _qwen3,
    "llama": _llama,
    "gpt2": _gpt2,
    "mixtral": _mixtral,
    "qwen2-tied": _qwen2,
}
"""Qwen3 has QK-norm; Llama none; GPT-2 LayerNorm, fused QKV, tied; Mixtral experts; Qwen2 here tied and with biases."""


def fresh(family: str, size: Size, seed: int) -> Any:
    """A newly initialised float32 model of ``family``; equal seeds give equal weights."""
    torch.manual_seed(seed)
    return BUILDERS[family](size)
