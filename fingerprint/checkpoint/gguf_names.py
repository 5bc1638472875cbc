"""What GGUF calls the tensors of transformers, and what its converter did to their values.

Names: gguf-py/gguf/tensor_mapping.py, inverted for the families this project reads by role. Values
(convert_hf_to_gguf.py): query and key rows of ``llama`` are re-ordered for adjacent-pair RoPE; Gemma and Nemotron norms
hold 1 + weight; GPT-2's matrices are turned; NeoX's and Bloom's fused qkv is sorted into q, k, v; experts are stacked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

_DECODER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
}
_MIXTRAL = _DECODER | {
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
}
_GEMMA2 = _DECODER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_PHI3 = _DECODER | {"ffn_up": "mlp.gate_up_proj"}
_GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_NEOX = {
    "token_embd": "gpt_neox.embed_in",
    "output_norm": "gpt_neox.final_layer_norm",
    "output": "embed_out",
    "attn_norm": "input_layernorm",
    "attn_qkv": "attention.query_key_value",
    "attn_output": "attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_BERT = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
_TABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gpt2": ("transformer.h", _GPT2),
    "gptneox": ("gpt_neox.layers", _NEOX),
    "bert": ("encoder.layer", _BERT),
    "gemma2": ("model.layers", _GEMMA2),
    "gemma3": ("model.layers", _GEMMA2),
    "phi3": ("model.layers", _PHI3),
}
_MODEL_TYPES = {
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "gptneox": "gpt_neox",
    "gemma3": "gemma3_text",
}
_CONFIG = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "rope.freq_base": "rope_theta",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_BLOCK = re.compile(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)")
_TOP = re.compile(r"(\w+)\.(weight|bias)")


class Undo(StrEnum):
    """What has to be undone to get transformers' values back."""

    NOTHING = "nothing"
    ROPE_ROWS = "unpermuted:rope"
    QKV_ROWS = "interleaved:qkv"
    TRANSPOSE = "transposed"
    NORM_PLUS_ONE = "offset:norm"
    EXPERTS = "unstacked:experts"
    ROW_VECTOR = "row-vector"


def rename(name: str, architecture: str, *, experts: bool) -> str:
    """The transformers name (with ``{}`` for the expert's number), or ``name`` itself when none is known."""
    prefix, table = _TABLES.get(architecture, ("model.layers", _DECODER))
    if architecture == "llama" and experts:
        table = _MIXTRAL
    if match := _BLOCK.fullmatch(name):
        stem = table.get(match[2])
        return name if stem is None else f"{prefix}.{match[1]}.{stem}.{match[3]}"
    if match := _TOP.fullmatch(name):
        stem = table.get(match[1])
        return name if stem is None else f"{stem}.{match[2]}"
    return name


def undo(name: str, architecture: str) -> Undo:
    """What the converter did to the tensor that GGUF calls ``name``."""
    match = _BLOCK.fullmatch(name)
    stem, part = (match[2], match[3]) if match else (name.rsplit(".", 1)[0], name.rsplit(".", 1)[-1])
    if architecture == "llama" and stem in {"attn_q", "attn_k"}:
        return Undo.ROPE_ROWS
    if architecture in {"gptneox", "bloom"} and stem == "attn_qkv":
        return Undo.QKV_ROWS
    if architecture == "gpt2" and part == "weight" and stem in {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}:
        return Undo.TRANSPOSE
    if architecture in {"gemma", "gemma2", "gemma3", "nemotron"} and part == "weight" and stem.endswith("norm"):
        return Undo.NORM_PLUS_ONE
    if stem.endswith("_exps"):
        return Undo.EXPERTS
    return Undo.ROW_VECTOR if stem == "ffn_gate_inp_shexp" else Undo.NOTHING


def config(metadata: Mapping[str, object], architecture: str) -> dict[str, Any]:
    """The fields of ``config.json`` that the metadata declares."""
    found: dict[str, Any] = {"model_type": _MODEL_TYPES.get(architecture, architecture)}
    for key, field in _CONFIG.items():
        value = metadata.get(f"{architecture}.{key}")
        if type(value) in (int, float):
            found[field] = value
    if architecture == "llama" and found.get("num_experts"):
        found["model_type"], found["num_local_experts"] = "mixtral", found["num_experts"]
    return found
