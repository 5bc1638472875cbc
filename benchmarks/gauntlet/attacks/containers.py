"""Containers that people really use for the same weights: GGUF, and int4 packed as GPTQ and AWQ do.

Written with llama.cpp's own ``gguf`` package, and by the published layouts of AutoGPTQ (version 1: zero points stored
less one, g_idx) and AutoAWQ (nibbles in the order 0 2 4 6 1 3 5 7), not by the readers under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from benchmarks.gauntlet.attacks.draft import family, read, size, tied
from benchmarks.gauntlet.attacks.model import Draft, Model
from benchmarks.gauntlet.attacks.naming import name_of
from fingerprint.architecture.interface import Role

GGUF_ARCH = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
PACKED_FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_TOP = {Role.EMBED: "token_embd", Role.FINAL_NORM: "output_norm", Role.HEAD: "output"}
_LAYER = {
    Role.NORM_ATTENTION: "attn_norm",
    Role.NORM_MLP: "ffn_norm",
    Role.QUERY: "attn_q",
    Role.KEY: "attn_k",
    Role.VALUE: "attn_v",
    Role.OUT: "attn_output",
    Role.QUERY_NORM: "attn_q_norm",
    Role.KEY_NORM: "attn_k_norm",
    Role.GATE: "ffn_gate",
    Role.UP: "ffn_up",
    Role.DOWN: "ffn_down",
    Role.ROUTER: "ffn_gate_inp",
}
_LINEAR = frozenset({Role.QUERY, Role.KEY, Role.VALUE, Role.OUT, Role.GATE, Role.UP, Role.DOWN})
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def write_gguf(model: Model, kind: str, folder: Path) -> None:
    """One ``model.gguf`` with matrices in ``kind`` (``bf16``, ``f16``, ``f32``, ``q8_0``, ``q4_0``) and vectors in f32.

    Rows that do not fill whole blocks stay f16, as llama-quantize falls back. llama's query and key rows are permuted
    to interleaved RoPE, as convert_hf_to_gguf does; qwen's are not.
    """
    draft = read(model)
    arch = GGUF_ARCH[family(draft)]
    writer = gguf.GGUFWriter(folder / "model.gguf", arch)
    _describe(writer, draft)
    quant = gguf.GGMLQuantizationType[kind.upper()]
    for name, tensor in _gguf_tensors(draft, arch).items():
        values = tensor.float().numpy()
        if values.ndim == 1 or kind == "f32":
            writer.add_tensor(name, values)
        elif kind == "f16" or values.shape[-1] % gguf.GGML_QUANT_SIZES[quant][0]:
            writer.add_tensor(name, values.astype(np.float16))
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, quant), raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, draft: Draft) -> None:
    """The metadata that llama.cpp needs to load it."""
    writer.add_block_count(size(draft, "num_hidden_layers"))
    writer.add_context_length(size(draft, "max_position_embeddings"))
    writer.add_embedding_length(size(draft, "hidden_size"))
    writer.add_feed_forward_length(size(draft, "intermediate_size"))
    writer.add_head_count(size(draft, "num_attention_heads"))
    writer.add_head_count_kv(size(draft, "num_key_value_heads"))
    writer.add_key_length(size(draft, "head_dim"))
    writer.add_value_length(size(draft, "head_dim"))
    writer.add_layer_norm_rms_eps(float(draft.config.get("rms_norm_eps", 1e-6)))
    writer.add_vocab_size(size(draft, "vocab_size"))
    if size(draft, "experts"):
        writer.add_expert_count(size(draft, "experts"))
        writer.add_expert_used_count(int(draft.config.get("num_experts_per_tok", 2)))
    vocab = (draft.tokenizer or {}).get("model", {}).get("vocab")
    if isinstance(vocab, dict):
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([token for token, _ in sorted(vocab.items(), key=lambda pair: pair[1])])


def _gguf_tensors(draft: Draft, arch: str) -> dict[str, torch.Tensor]:
    out: dict[str, torch.Tensor] = {}
    experts: dict[str, list[torch.Tensor]] = {}
    heads = {Role.QUERY: size(draft, "num_attention_heads"), Role.KEY: size(draft, "num_key_value_heads")}
    for slot, value in sorted(draft.tensors.items(), key=lambda pair: (pair[0].layer, pair[0].role, pair[0].expert)):
        stem = Role(slot.role.value.removesuffix("_bias"))
        leaf = "bias" if slot.role.value.endswith("_bias") else "weight"
        if slot.layer < 0:
            out[f"{_TOP[stem]}.{leaf}"] = value
        elif slot.expert >= 0:
            experts.setdefault(f"blk.{slot.layer}.{_LAYER[stem]}_exps.{leaf}", []).append(value)
        else:
            turned = _interleave(value, heads[stem]) if arch == "llama" and stem in heads else value
            out[f"blk.{slot.layer}.{_LAYER[stem]}.{leaf}"] = turned
    return out | {name: torch.stack(parts) for name, parts in experts.items()}


def _interleave(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Half-split RoPE rows (transformers) to interleaved ones (llama.cpp), head by head."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def pack_int4(model: Model, scheme: str, group: int = 32) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The layers' linear maps as packed int4, everything else in f16.

    Args:
        model: A dense Llama-type model.
        scheme: ``gptq`` or ``awq``.
        group: Inputs that share a scale; halved until it divides every matrix.

    Returns:
        State dict, and config.json with its ``quantization_config``.
    """
    draft = read(model)
    while any(v.shape[1] % group for s, v in draft.tensors.items() if s.role in _LINEAR):
        group //= 2
    state: dict[str, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        name = name_of(slot, family(draft))
        if slot.role in _LINEAR:
            pack = _pack_gptq if scheme == "gptq" else _pack_awq
            state |= {name.removesuffix("weight") + k: v for k, v in pack(*_codes(value, group)).items()}
        else:
            state[name] = value.half()
    told = {"quant_method": scheme, "bits": 4, "group_size": group}
    told |= {"desc_act": False, "sym": False} if scheme == "gptq" else {"version": "gemm", "zero_point": True}
    config = {**model.config, "quantization_config": told, "dtype": "float16", "tie_word_embeddings": tied(draft)}
    return state, config


def _codes(w: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(codes (in x out), zeros (groups x out) in 1..15, scales (groups x out) f16) of a matrix (out x in)."""
    blocks = w.reshape(w.shape[0], -1, group)
    low, high = blocks.amin(-1).clamp(max=0), blocks.amax(-1).clamp(min=0)
    scale = ((high - low) / 15).clamp_min(1e-6).half().double()
    zero = (-low / scale).round().clamp(1, 15)
    codes = ((blocks / scale[..., None]).round() + zero[..., None]).clamp(0, 15).reshape(w.shape)
    return codes.T.long(), zero.T.long(), scale.T.half()


def _nibbles(values: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """Eight neighbours along the last axis in one int32: nibble i holds neighbour ``order[i]``."""
    eights = values.reshape(*values.shape[:-1], -1, 8)
    packed = sum((eights[..., o] << (4 * i) for i, o in enumerate(order)), torch.zeros_like(eights[..., 0]))
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32).contiguous()


def _pack_gptq(codes: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor) -> Mapping[str, torch.Tensor]:
    plain = tuple(range(8))
    group = len(codes) // len(zero)
    return {
        "qweight": _nibbles(codes.T, plain).T.contiguous(),
        "qzeros": _nibbles(zero - 1, plain),
        "scales": scale.contiguous(),
        "g_idx": (torch.arange(len(codes)) // group).to(torch.int32),
    }


def _pack_awq(codes: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor) -> Mapping[str, torch.Tensor]:
    return {
        "qweight": _nibbles(codes, _AWQ_ORDER),
        "qzeros": _nibbles(zero, _AWQ_ORDER),
        "scales": scale.contiguous(),
    }
