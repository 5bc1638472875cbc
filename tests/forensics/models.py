"""Small decoders, honest and disguised, as tensors and as folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from fingerprint.fingerprint import Fingerprint
from fingerprint.scan import scan
from tests.fingerprint.memory import MemoryCheckpoint

Tensors = dict[str, torch.Tensor]
WIDTH, UNITS, VOCABULARY, LAYERS = 64, 160, 96, 2
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": UNITS,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def decoder(seed: int) -> Tensors:
    """A Llama-like decoder with random weights."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.05

    tensors = {"model.embed_tokens.weight": draw(VOCABULARY, WIDTH), "lm_head.weight": draw(VOCABULARY, WIDTH)}
    tensors["model.norm.weight"] = 1 + draw(WIDTH)
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        tensors |= {
            p + "input_layernorm.weight": 1 + draw(WIDTH),
            p + "post_attention_layernorm.weight": 1 + draw(WIDTH),
            p + "self_attn.q_proj.weight": draw(WIDTH, WIDTH),
            p + "self_attn.k_proj.weight": draw(WIDTH // 2, WIDTH),
            p + "self_attn.v_proj.weight": draw(WIDTH // 2, WIDTH),
            p + "self_attn.o_proj.weight": draw(WIDTH, WIDTH),
            p + "mlp.gate_proj.weight": draw(UNITS, WIDTH),
            p + "mlp.up_proj.weight": draw(UNITS, WIDTH),
            p + "mlp.down_proj.weight": draw(WIDTH, UNITS),
        }
    return {name: t.to(torch.bfloat16) for name, t in tensors.items()}


def noisy(tensors: Mapping[str, torch.Tensor], e: float, seed: int = 9) -> Tensors:
    """Relative Gaussian noise on the matrices."""
    generator = torch.Generator().manual_seed(seed)

    def moved(t: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(t.shape, generator=generator) * t.float().std() * e
        return (t.float() + noise).to(t.dtype) if t.ndim == 2 else t

    return {name: moved(t) for name, t in tensors.items()}


def renamed(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """Other names, same bytes."""
    return {f"transformer.{name}": t for name, t in tensors.items()}


def fingerprint(tensors: Mapping[str, torch.Tensor]) -> Fingerprint:
    """Scanned in memory."""
    return scan(MemoryCheckpoint(tensors, CONFIG))


def write(tensors: Mapping[str, torch.Tensor], folder: Path) -> Path:
    """A checkpoint folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder
