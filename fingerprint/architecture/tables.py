"""Names that tensors go by, as data: one row per name, one table per place.

A layer's tensor is looked up by what follows ``layers.N.``, the rest by the end of its name, so that any wrapper's
prefix falls away. A name only ever proposes a role: the shape has to agree (``named``). Sources: state dicts of
transformers 5, llama.cpp's ``gguf-py`` name map, and Meta's original Llama release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from .interface import Role


class Cut(StrEnum):
    """How the roles of one stored tensor lie in it."""

    WHOLE = "whole"
    STACKED = "stacked"  # q over k over v, or gate over up
    GROUPED = "grouped"  # NeoX, Falcon, Bloom, InternLM2: per key/value head its queries, its key, its value
    PACKED = "packed"  # experts along the first axis
    ROPE_PAIRS = "rope_pairs"  # Meta's Llama: rotary pairs lie next to each other


@dataclass(frozen=True)
class Stem:
    """What a name proposes: the roles held, and how they lie."""

    roles: tuple[Role, ...]
    cut: Cut = Cut.WHOLE


def _one(role: Role, cut: Cut = Cut.WHOLE) -> Stem:
    return Stem((role,), cut)


_QKV = (Role.QUERY, Role.KEY, Role.VALUE)
_GATE_UP = (Role.GATE, Role.UP)
_ATTENTION = r"(?:self_attn|attn|attention|self_attention|attention\.self|attention\.attention)\."
_MLP = r"(?:mlp|feed_forward|ffn|block_sparse_moe|moe)\."
_EXPERT = _MLP + r"experts\.(?P<expert>\d{1,6})\."
_SHARED = _MLP + r"(?P<shared>shared_experts?)\."

STACK = re.compile(r"^(?P<prefix>(?:.*\.)?)(?P<word>layers|h|layer|blocks?|blk)\.(?P<index>\d{1,6})\.(?P<rest>.+)$")
"""A tensor of a layer; greedy, so that the innermost stack of a wrapped model is the one that counts."""

_LAYER_ROWS: tuple[tuple[str, Stem], ...] = (
    (_ATTENTION + r"(?:q_proj|query|q_lin)|attn_q", _one(Role.QUERY)),
    (_ATTENTION + r"(?:k_proj|key|k_lin)|attn_k", _one(Role.KEY)),
    (_ATTENTION + r"(?:v_proj|value|v_lin|wv)|attn_v", _one(Role.VALUE)),
    (_ATTENTION + r"wq", _one(Role.QUERY, Cut.ROPE_PAIRS)),
    (_ATTENTION + r"wk", _one(Role.KEY, Cut.ROPE_PAIRS)),
    (_ATTENTION + r"(?:o_proj|out_proj|dense|out_lin|wo|c_proj)|attention\.output\.dense|attn_output", _one(Role.OUT)),
    (_ATTENTION + r"(?:qkv_proj|c_attn|Wqkv|qkv)|attn_qkv", Stem(_QKV, Cut.STACKED)),
    (_ATTENTION + r"(?:query_key_value|wqkv)", Stem(_QKV, Cut.GROUPED)),
    (_ATTENTION + r"(?:q_norm|q_layernorm)|attn_q_norm", _one(Role.QUERY_NORM)),
    (_ATTENTION + r"(?:k_norm|k_layernorm)|attn_k_norm", _one(Role.KEY_NORM)),
    (r"(?:mlp\.gate_proj|feed_forward\.w1|ffn_gate|mlp\.w2)", _one(Role.GATE)),
    (r"(?:mlp\.up_proj|feed_forward\.w3|ffn_up|mlp\.w1)", _one(Role.UP)),
    (r"(?:mlp\.down_proj|feed_forward\.w2|ffn_down)", _one(Role.DOWN)),
    (r"mlp\.gate_up_proj", Stem(_GATE_UP, Cut.STACKED)),
    (r"(?:mlp\.c_fc|mlp\.dense_h_to_4h|intermediate\.dense|(?:mlp\.|ffn\.)?(?:fc1|lin1)|mlp\.fc_in)", _one(Role.UP)),
    (r"(?:mlp\.c_proj|mlp\.dense_4h_to_h|output\.dense|(?:mlp\.|ffn\.)?(?:fc2|lin2)|mlp\.fc_out)", _one(Role.DOWN)),
    (_EXPERT + r"(?:gate_proj|w1)", _one(Role.GATE)),
    (_EXPERT + r"(?:up_proj|w3)", _one(Role.UP)),
    (_EXPERT + r"(?:down_proj|w2)", _one(Role.DOWN)),
    (_SHARED + r"gate_proj", _one(Role.GATE)),
    (_SHARED + r"up_proj", _one(Role.UP)),
    (_SHARED + r"down_proj", _one(Role.DOWN)),
    (r"ffn_gate_(?P<shared>shexp)", _one(Role.GATE)),
    (r"ffn_up_(?P<shared>shexp)", _one(Role.UP)),
    (r"ffn_down_(?P<shared>shexp)", _one(Role.DOWN)),
    (_MLP + r"experts\.gate_up_proj", Stem(_GATE_UP, Cut.PACKED)),
    (_MLP + r"experts\.gate_proj|ffn_gate_exps", _one(Role.GATE, Cut.PACKED)),
    (_MLP + r"experts\.up_proj|ffn_up_exps", _one(Role.UP, Cut.PACKED)),
    (_MLP + r"experts\.down_proj|ffn_down_exps", _one(Role.DOWN, Cut.PACKED)),
    (_MLP + r"(?:gate|router)|ffn_gate_inp", _one(Role.ROUTER)),
    (_MLP + r"shared_expert_gate|ffn_gate_inp_shexp", _one(Role.SHARED_GATE)),
    (
        r"(?:input_layernorm|ln_1|ln_attn|self_attn_layer_norm|sa_layer_norm|attention_norm|attn_norm)",
        _one(Role.NORM_ATTENTION),
    ),
    (r"attention\.output\.LayerNorm", _one(Role.NORM_ATTENTION)),
    (r"(?:post_attention_layernorm|ln_2|ln_mlp|output_layer_norm|ffn_norm|final_layer_norm)", _one(Role.NORM_MLP)),
    (r"(?:output\.LayerNorm|pre_feedforward_layernorm)", _one(Role.NORM_MLP)),
    (r"(?:post_feedforward_layernorm|post_ffw_norm)", _one(Role.NORM_POST_MLP)),
    (r"post_attention_norm", _one(Role.NORM_POST_ATTENTION)),
)

_TOP_ROWS: tuple[tuple[str, Stem], ...] = (
    (r"embed_tokens|wte|word_embeddings|embed_in|tok_embeddings|token_embd", _one(Role.EMBED)),
    (r"wpe|position_embeddings|embed_positions|position_embd", _one(Role.POSITION)),
    (r"token_type_embeddings|token_types", _one(Role.TOKEN_TYPE)),
    (r"word_embeddings_layernorm|embeddings\.LayerNorm|token_embd_norm", _one(Role.EMBED_NORM)),
    (r"lm_head|embed_out|predictions\.decoder|lm_head\.decoder|output", _one(Role.HEAD)),
    (r"norm|ln_f|final_layer_norm|final_layernorm|output_norm", _one(Role.FINAL_NORM)),
)

HEAD_BIAS_NAMES = (
    "lm_head.bias",
    "predictions.bias",
    "predictions.decoder.bias",
    "lm_head.decoder.bias",
    "embed_out.bias",
)

SANDWICH = frozenset({"post_feedforward_layernorm", "post_ffw_norm"})
"""Where one of these exists, ``post_attention_layernorm`` norms the branch's output (Gemma 2/3, OLMo 2)."""

POST_NORM = frozenset({"attention.output.LayerNorm", "output.LayerNorm", "sa_layer_norm", "output_layer_norm"})
"""Names that only post-LN encoders give their norms."""

CONV1D = frozenset({"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"})
"""Stored (in x out) by GPT-2; only asked where shapes cannot tell."""

_LAYER = tuple((re.compile(pattern), stem) for pattern, stem in _LAYER_ROWS)
_TOP = tuple((re.compile(rf"(?P<prefix>(?:.*\.)?)(?:{pattern})"), stem) for pattern, stem in _TOP_ROWS)
_INNER_PREFIX = re.compile(r"(?:^|(?<=\.))(?:embeddings|cls|lm_head|embed)\.$")
_ENDINGS = ((".weight", False), (".gamma", False), (".bias", True), (".beta", True))


@dataclass(frozen=True)
class Proposal:
    """A name's proposal. ``expert`` is -1 outside experts; ``prefix`` only for tensors outside layers."""

    stem: Stem
    bias: bool
    expert: int = -1
    shared: bool = False
    prefix: str = ""


def split_ending(name: str) -> tuple[str, bool]:
    """Cut ``.weight``, ``.bias`` or their old forms off; True for a bias."""
    for ending, bias in _ENDINGS:
        if name.endswith(ending):
            return name[: -len(ending)], bias
    return name, False


def of_layer(rest: str) -> Proposal | None:
    """What ``rest`` (the name after ``layers.N.``) proposes, if anything."""
    stem_name, bias = split_ending(rest)
    for pattern, stem in _LAYER:
        found = pattern.fullmatch(stem_name)
        if found:
            groups = found.groupdict()
            expert = int(groups["expert"]) if groups.get("expert") else -1
            return Proposal(stem, bias, expert, bool(groups.get("shared")))
    return None


def of_top(name: str) -> Proposal | None:
    """What a name outside any layer proposes, if anything."""
    for known in HEAD_BIAS_NAMES:
        if name == known or name.endswith(f".{known}"):
            return Proposal(_one(Role.HEAD), True)
    stem_name, bias = split_ending(name)
    if stem_name == name:
        return None
    for pattern, stem in _TOP:
        found = pattern.fullmatch(stem_name)
        if found:
            return Proposal(stem, bias, prefix=_INNER_PREFIX.sub("", found["prefix"]))
    return None
