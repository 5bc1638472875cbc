"""Random models of five families, small enough to align in milliseconds, and ways to read and change them.

Random weights, made like trained ones where it matters for aligning: gains are uneven, embeddings share a direction,
and matrices have a decaying spectrum.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch

from benchmarks.gauntlet import attacks
from benchmarks.gauntlet.attacks import Model, Scene
from fingerprint.architecture import recognise
from fingerprint.compare.align import Canonical, load
from tests.fingerprint.memory import MemoryCheckpoint

_REGISTRY = attacks.registry(beyond_the_table=True)
HIDDEN, UNITS, LAYERS, HEADS, GROUPS, SIZE, VOCABULARY, EXPERTS = 48, 80, 3, 4, 2, 12, 320, 4
_LLAMA_TYPE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": UNITS,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "head_dim": SIZE,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_LLAMA_TYPE, "model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    "qwen3": {**_LLAMA_TYPE, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
    "qwen2": {**_LLAMA_TYPE, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": True},
    "mixtral": {
        **_LLAMA_TYPE,
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": EXPERTS,
        "num_experts_per_tok": 2,
    },
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": HIDDEN,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_inner": UNITS,
        "n_positions": 64,
        "vocab_size": VOCABULARY,
        "layer_norm_epsilon": 1e-5,
    },
    "bert": {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": HIDDEN,
        "intermediate_size": UNITS,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
    },
}


class _Maker:
    """Draws named tensors."""

    def __init__(self, seed: int) -> None:
        self.rng = torch.Generator().manual_seed(seed)
        self.state: dict[str, torch.Tensor] = {}

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.rng, dtype=torch.float64)

    def matrix(self, name: str, *shape: int) -> None:
        u, s, v = torch.linalg.svd(self.normal(*shape), full_matrices=False)
        decay = torch.linspace(1.0, 0.3, len(s), dtype=torch.float64)
        self.state[name] = ((u * s * decay) @ v).float() * 0.1

    def table(self, name: str, rows: int) -> None:
        self.state[name] = (self.normal(rows, HIDDEN) + 0.7 * self.normal(1, HIDDEN)).float() * 0.1

    def gain(self, name: str, length: int = HIDDEN) -> None:
        self.state[name] = (0.3 * self.normal(length)).exp().float()

    def bias(self, name: str, length: int) -> None:
        self.state[name] = self.normal(length).float() * 0.05


@cache
def random_model(family: str, seed: int) -> Model:
    """A random model of ``family`` (a key of CONFIGS), float32."""
    made = _Maker(seed)
    if family == "gpt2":
        _gpt2(made)
    elif family == "bert":
        _bert(made)
    else:
        _decoder(made, family)
    return Model(made.state, CONFIGS[family])


def _decoder(made: _Maker, family: str) -> None:
    made.table("model.embed_tokens.weight", VOCABULARY)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, rows in (("q", HEADS * SIZE), ("k", GROUPS * SIZE), ("v", GROUPS * SIZE)):
            made.matrix(f"{at}self_attn.{name}_proj.weight", rows, HIDDEN)
            if family == "qwen2":
                made.bias(f"{at}self_attn.{name}_proj.bias", rows)
        made.matrix(f"{at}self_attn.o_proj.weight", HIDDEN, HEADS * SIZE)
        if family == "qwen3":
            made.gain(f"{at}self_attn.q_norm.weight", SIZE)
            made.gain(f"{at}self_attn.k_norm.weight", SIZE)
        if family == "mixtral":
            _experts(made, f"{at}block_sparse_moe.")
        else:
            made.matrix(f"{at}mlp.gate_proj.weight", UNITS, HIDDEN)
            made.matrix(f"{at}mlp.up_proj.weight", UNITS, HIDDEN)
            made.matrix(f"{at}mlp.down_proj.weight", HIDDEN, UNITS)
        made.gain(f"{at}input_layernorm.weight")
        made.gain(f"{at}post_attention_layernorm.weight")
    made.gain("model.norm.weight")
    if not CONFIGS[family]["tie_word_embeddings"]:
        made.table("lm_head.weight", VOCABULARY)


def _experts(made: _Maker, at: str) -> None:
    made.matrix(f"{at}gate.weight", EXPERTS, HIDDEN)
    for expert in range(EXPERTS):
        made.matrix(f"{at}experts.{expert}.w1.weight", UNITS, HIDDEN)
        made.matrix(f"{at}experts.{expert}.w3.weight", UNITS, HIDDEN)
        made.matrix(f"{at}experts.{expert}.w2.weight", HIDDEN, UNITS)


def _gpt2(made: _Maker) -> None:
    made.table("transformer.wte.weight", VOCABULARY)
    made.table("transformer.wpe.weight", 64)
    for layer in range(LAYERS):
        at = f"transformer.h.{layer}."
        for name, into, out in (
            ("attn.c_attn", HIDDEN, 3 * HIDDEN),
            ("attn.c_proj", HIDDEN, HIDDEN),
            ("mlp.c_fc", HIDDEN, UNITS),
            ("mlp.c_proj", UNITS, HIDDEN),
        ):
            made.matrix(f"{at}{name}.weight", into, out)
            made.bias(f"{at}{name}.bias", out)
        for name in ("ln_1", "ln_2"):
            made.gain(f"{at}{name}.weight")
            made.bias(f"{at}{name}.bias", HIDDEN)
    made.gain("transformer.ln_f.weight")
    made.bias("transformer.ln_f.bias", HIDDEN)


def _bert(made: _Maker) -> None:
    made.table("embeddings.word_embeddings.weight", VOCABULARY)
    made.table("embeddings.position_embeddings.weight", 64)
    made.table("embeddings.token_type_embeddings.weight", 2)
    made.gain("embeddings.LayerNorm.weight")
    made.bias("embeddings.LayerNorm.bias", HIDDEN)
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name, into, out in (
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", HIDDEN, UNITS),
            ("output.dense", UNITS, HIDDEN),
        ):
            made.matrix(f"{at}{name}.weight", out, into)
            made.bias(f"{at}{name}.bias", out)
        for name in ("attention.output", "output"):
            made.gain(f"{at}{name}.LayerNorm.weight")
            made.bias(f"{at}{name}.LayerNorm.bias", HIDDEN)


def canonical(model: Model) -> Canonical:
    """What reading the model's files would give."""
    checkpoint = MemoryCheckpoint(attacks.laid_out(model), model.config if model.storage.config == "keep" else {})
    return load(checkpoint, recognise(checkpoint))


def attacked(model: Model, *names: str, seed: int = 0) -> tuple[Model, set[str]]:
    """The model after attacks of the gauntlet's registry, and the words that say what was undone."""
    words: set[str] = set()
    for name in names:
        out = attacks.perform(_REGISTRY[name], Scene(model), seed=seed)
        model, words = out.model, words | set(out.transforms)
    return model, words


def learned(model: Model, relative: float, seed: int = 99) -> Model:
    """The model after a change as training makes it: sums of few outer products with shared sides, in every matrix."""
    made = _Maker(seed)
    shared = made.normal(8, HIDDEN)
    state = {}
    for name, x in model.state.items():
        if x.ndim < 2:
            state[name] = x + 0.2 * relative * x * made.normal(*x.shape).float()
            continue
        side = shared if x.shape[1] == HIDDEN else made.normal(8, x.shape[1])
        delta = (made.normal(x.shape[0], 8) @ side).float()
        delta = delta + 0.5 * made.normal(*x.shape).float() * delta.std()
        state[name] = x + delta * (relative * x.norm() / delta.norm())
    return replace(model, state=state)
