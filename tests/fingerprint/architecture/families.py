"""Tiny real models of every family, by transformers, and where their modules keep what each slot should hold."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from tests.fingerprint.memory import MemoryCheckpoint

BASE = {"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GQA = {**BASE, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WIDE = {**GQA, "head_dim": 16}
GPT2 = {
    "vocab_size": 128,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IDS = {"bos_token_id": 1, "eos_token_id": 2}
FALCON = {name: size for name, size in (BASE | IDS).items() if name != "intermediate_size"}

FAMILIES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "llama": ("llama", "LlamaConfig", "LlamaForCausalLM", GQA),
    "mistral": ("mistral", "MistralConfig", "MistralForCausalLM", GQA),
    "qwen2": ("qwen2", "Qwen2Config", "Qwen2ForCausalLM", GQA),
    "qwen3": ("qwen3", "Qwen3Config", "Qwen3ForCausalLM", WIDE),
    "gemma": ("gemma", "GemmaConfig", "GemmaForCausalLM", WIDE),
    "gemma2": ("gemma2", "Gemma2Config", "Gemma2ForCausalLM", WIDE),
    "gemma3": ("gemma3", "Gemma3TextConfig", "Gemma3ForCausalLM", WIDE),
    "olmo2": ("olmo2", "Olmo2Config", "Olmo2ForCausalLM", GQA),
    "phi3": ("phi3", "Phi3Config", "Phi3ForCausalLM", GQA),
    "gpt2": ("gpt2", "GPT2Config", "GPT2LMHeadModel", GPT2),
    "neox": ("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", {**BASE, **IDS}),
    "falcon": (
        "falcon",
        "FalconConfig",
        "FalconForCausalLM",
        {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True},
    ),
    "falcon-mqa": ("falcon", "FalconConfig", "FalconForCausalLM", FALCON),
    "bloom": (
        "bloom",
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": 128, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    ),
    "bert": ("bert", "BertConfig", "BertModel", BASE),
    "bert-mlm": ("bert", "BertConfig", "BertForMaskedLM", BASE),
    "roberta": ("roberta", "RobertaConfig", "RobertaForMaskedLM", {**BASE, "pad_token_id": 1}),
    "mixtral": ("mixtral", "MixtralConfig", "MixtralForCausalLM", {**GQA, "num_local_experts": 4}),
    "qwen2_moe": (
        "qwen2_moe",
        "Qwen2MoeConfig",
        "Qwen2MoeForCausalLM",
        {**GQA, "num_experts": 4, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40},
    ),
    "qwen3_moe": (
        "qwen3_moe",
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {**WIDE, "num_experts": 4, "moe_intermediate_size": 24},
    ),
}


@cache
def model(family: str) -> torch.nn.Module:
    """The model, with every parameter drawn at random so that no two tensors are alike."""
    module, config, name, fields = FAMILIES[family]
    configuration = importlib.import_module(f"transformers.models.{module}.configuration_{module}")
    modeling = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    torch.manual_seed(len(family))
    built: torch.nn.Module = getattr(modeling, name)(getattr(configuration, config)(**fields))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(generator=generator)
    return built


def checkpoint(
    family: str,
    *,
    rename: Callable[[str], str] = str,
    config: dict[str, Any] | None = None,
    keep: Callable[[str], bool] = lambda name: True,
) -> MemoryCheckpoint:
    """The model's state as ``save_pretrained`` would keep it: tied tensors once, under the embedding's name."""
    built = model(family)
    tied = set(getattr(built, "_tied_weights_keys", None) or ()) if built.config.tie_word_embeddings else set()
    state = {rename(k): v for k, v in built.state_dict().items() if k not in tied and keep(k)}
    return MemoryCheckpoint(state, built.config.to_dict() if config is None else config)
