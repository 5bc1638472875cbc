"""Names: where each family of transformers keeps each role, and the renamings an uploader may hide behind."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from fingerprint.architecture.interface import SHARED_EXPERT, Role, Slot

LLAMA_TYPES = frozenset({"llama", "mistral", "qwen2", "qwen3", "gemma"})
MOE_TYPES = frozenset({"mixtral", "qwen3_moe"})
DECODERS = LLAMA_TYPES | MOE_TYPES
FAMILIES = DECODERS | {"gpt2", "bert"}

_LLAMA_TOP = {
    Role.EMBED: "model.embed_tokens.weight",
    Role.FINAL_NORM: "model.norm.weight",
    Role.HEAD: "lm_head.weight",
}
_LLAMA_LAYER = {
    Role.NORM_ATTENTION: "input_layernorm.weight",
    Role.NORM_MLP: "post_attention_layernorm.weight",
    Role.QUERY: "self_attn.q_proj.weight",
    Role.QUERY_BIAS: "self_attn.q_proj.bias",
    Role.KEY: "self_attn.k_proj.weight",
    Role.KEY_BIAS: "self_attn.k_proj.bias",
    Role.VALUE: "self_attn.v_proj.weight",
    Role.VALUE_BIAS: "self_attn.v_proj.bias",
    Role.OUT: "self_attn.o_proj.weight",
    Role.OUT_BIAS: "self_attn.o_proj.bias",
    Role.QUERY_NORM: "self_attn.q_norm.weight",
    Role.KEY_NORM: "self_attn.k_norm.weight",
}
_MLP = {
    Role.GATE: "mlp.gate_proj.weight",
    Role.GATE_BIAS: "mlp.gate_proj.bias",
    Role.UP: "mlp.up_proj.weight",
    Role.UP_BIAS: "mlp.up_proj.bias",
    Role.DOWN: "mlp.down_proj.weight",
    Role.DOWN_BIAS: "mlp.down_proj.bias",
}
_GPT2_TOP = {
    Role.EMBED: "transformer.wte.weight",
    Role.POSITION: "transformer.wpe.weight",
    Role.FINAL_NORM: "transformer.ln_f.weight",
    Role.FINAL_NORM_BIAS: "transformer.ln_f.bias",
    Role.HEAD: "lm_head.weight",
}
_GPT2_LAYER = {
    Role.NORM_ATTENTION: "ln_1.weight",
    Role.NORM_ATTENTION_BIAS: "ln_1.bias",
    Role.NORM_MLP: "ln_2.weight",
    Role.NORM_MLP_BIAS: "ln_2.bias",
    Role.OUT: "attn.c_proj.weight",
    Role.OUT_BIAS: "attn.c_proj.bias",
    Role.UP: "mlp.c_fc.weight",
    Role.UP_BIAS: "mlp.c_fc.bias",
    Role.DOWN: "mlp.c_proj.weight",
    Role.DOWN_BIAS: "mlp.c_proj.bias",
}
_BERT_TOP = {
    Role.EMBED: "embeddings.word_embeddings.weight",
    Role.POSITION: "embeddings.position_embeddings.weight",
    Role.TOKEN_TYPE: "embeddings.token_type_embeddings.weight",
    Role.EMBED_NORM: "embeddings.LayerNorm.weight",
    Role.EMBED_NORM_BIAS: "embeddings.LayerNorm.bias",
}
_BERT_LAYER = {
    Role.QUERY: "attention.self.query.weight",
    Role.QUERY_BIAS: "attention.self.query.bias",
    Role.KEY: "attention.self.key.weight",
    Role.KEY_BIAS: "attention.self.key.bias",
    Role.VALUE: "attention.self.value.weight",
    Role.VALUE_BIAS: "attention.self.value.bias",
    Role.OUT: "attention.output.dense.weight",
    Role.OUT_BIAS: "attention.output.dense.bias",
    Role.NORM_ATTENTION: "attention.output.LayerNorm.weight",
    Role.NORM_ATTENTION_BIAS: "attention.output.LayerNorm.bias",
    Role.UP: "intermediate.dense.weight",
    Role.UP_BIAS: "intermediate.dense.bias",
    Role.DOWN: "output.dense.weight",
    Role.DOWN_BIAS: "output.dense.bias",
    Role.NORM_MLP: "output.LayerNorm.weight",
    Role.NORM_MLP_BIAS: "output.LayerNorm.bias",
}
_EXPERT = {
    "mixtral": (
        "block_sparse_moe.gate.weight",
        {
            Role.GATE: "block_sparse_moe.experts.{e}.w1.weight",
            Role.UP: "block_sparse_moe.experts.{e}.w3.weight",
            Role.DOWN: "block_sparse_moe.experts.{e}.w2.weight",
        },
    ),
    "qwen3_moe": (
        "mlp.gate.weight",
        {
            Role.GATE: "mlp.experts.{e}.gate_proj.weight",
            Role.UP: "mlp.experts.{e}.up_proj.weight",
            Role.DOWN: "mlp.experts.{e}.down_proj.weight",
        },
    ),
}
PACKED = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")
PACKED_ROUTER = "mlp.gate.weight"


def stem(family: str) -> str:
    """What stands before a layer's number."""
    return {"gpt2": "transformer.h.", "bert": "encoder.layer."}.get(family, "model.layers.")


def name_of(slot: Slot, family: str) -> str:
    """Name transformers gives to ``slot`` in ``family`` (unfused, unpacked).

    Raises:
        KeyError: The family has no such role.
    """
    if slot.role is Role.OTHER:
        return slot.name
    top = {"gpt2": _GPT2_TOP, "bert": _BERT_TOP}.get(family, _LLAMA_TOP)
    if slot.layer < 0:
        return top[slot.role]
    lead = f"{stem(family)}{slot.layer}."
    if family in _EXPERT and slot.role is Role.ROUTER:
        return lead + _EXPERT[family][0]
    if slot.expert >= 0 and slot.expert != SHARED_EXPERT:
        return lead + _EXPERT[family][1][slot.role].format(e=slot.expert)
    layer = {"gpt2": _GPT2_LAYER, "bert": _BERT_LAYER}.get(family, _LLAMA_LAYER | _MLP)
    return lead + layer[slot.role]


def slots_by_name(family: str, layers: int, experts: int) -> dict[str, Slot]:
    """Every name the family may use, to its slot (GPT-2's fused projection and packed experts are cut apart before)."""
    top = {"gpt2": _GPT2_TOP, "bert": _BERT_TOP}.get(family, _LLAMA_TOP)
    layer = {"gpt2": _GPT2_LAYER, "bert": _BERT_LAYER}.get(family, _LLAMA_LAYER | _MLP)
    slots = [Slot(role) for role in top]
    for i in range(layers):
        slots += [Slot(role, i) for role in layer]
        if family in _EXPERT:
            slots.append(Slot(Role.ROUTER, i))
            slots += [Slot(role, i, e) for e in range(experts) for role in _EXPERT[family][1]]
    return {name_of(slot, family): slot for slot in slots}


_LEAVES = (
    (r"\bembed_tokens\b", "tok_embeddings"),
    (r"\b(wte|word_embeddings)\b", "token_table"),
    (r"\b(wpe|position_embeddings)\b", "place_table"),
    (r"\b(lm_head)\b", "output"),
    (r"\b(model\.layers|transformer\.h|encoder\.layer)\b", "blocks"),
    (r"\bself_attn\.(q|k|v|o)_proj\b", r"attention.w\1"),
    (r"\battention\.self\.(query|key|value)\b", r"mix.\1_map"),
    (r"\battn\.c_attn\b", "mix.qkv"),
    (r"\b(attn\.c_proj|attention\.output\.dense)\b", "mix.out_map"),
    (r"\b(gate_proj)\b", "w1"),
    (r"\b(down_proj)\b", "w2"),
    (r"\b(up_proj)\b", "w3"),
    (r"\b(mlp\.c_fc|intermediate\.dense)\b", "feed.wide"),
    (r"\b(mlp\.c_proj|output\.dense)\b", "feed.narrow"),
    (r"\b(input_layernorm|ln_1)\b", "attention_norm"),
    (r"\b(post_attention_layernorm|ln_2)\b", "ffn_norm"),
)


def _leaf(name: str) -> str:
    for pattern, into in _LEAVES:
        name = re.sub(pattern, into, name)
    return name


def _scramble(name: str) -> str:
    """A name that says nothing; its hash also shuffles the order, since safetensors writers sort by name."""
    return "t" + hashlib.sha256(b"scramble|" + name.encode()).hexdigest()[:12]


def _number(name: str) -> str:
    """Layers numbered from elsewhere and dots replaced: parsers that split on dots find nothing."""
    return re.sub(r"\.(\d+)\.", lambda m: f".L{int(m[1]) + 100}.", name).replace(".", "/")


SCHEMES: Mapping[str, Callable[[str], str]] = {
    "prefix": lambda name: f"base_model.model.{name}",
    "leaf": _leaf,
    "number": _number,
    "scramble": _scramble,
}
