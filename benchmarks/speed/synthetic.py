"""Decoder-shaped checkpoints of any size, written once and kept outside the repository.

Values are bfloat16 noise cut from one pool at shifting offsets: speed and memory do not depend on what was learned,
and drawing 4e9 normal values would take longer than everything that is measured.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

POOL = 1 << 26
"""Values in the pool of noise."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama-type decoder with an untied head."""

    name: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int

    @property
    def config(self) -> dict[str, object]:
        """What ``config.json`` says."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "vocab_size": self.vocab,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        }

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes in storage order."""
        d, kv = self.hidden, self.hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", (self.vocab, d)
        for i in range(self.layers):
            p = f"model.layers.{i}"
            yield f"{p}.input_layernorm.weight", (d,)
            yield f"{p}.self_attn.q_proj.weight", (d, d)
            yield f"{p}.self_attn.k_proj.weight", (kv, d)
            yield f"{p}.self_attn.v_proj.weight", (kv, d)
            yield f"{p}.self_attn.o_proj.weight", (d, d)
            yield f"{p}.post_attention_layernorm.weight", (d,)
            yield f"{p}.mlp.gate_proj.weight", (self.intermediate, d)
            yield f"{p}.mlp.up_proj.weight", (self.intermediate, d)
            yield f"{p}.mlp.down_proj.weight", (d, self.intermediate)
        yield "model.norm.weight", (d,)
        yield "lm_head.weight", (self.vocab, d)


TWO_GB = Shape("llama-1b-2gb", 2048, 5632, 22, 32, 4, 32000)
EIGHT_GB = Shape("llama-4b-8gb", 4096, 11008, 19, 32, 8, 64000)
EIGHT_B = Shape("llama-8b", 4096, 14336, 32, 32, 8, 128256)
"""Only its fingerprint is sized: 16 GB of weights are not written."""
TINY = Shape("llama-tiny", 256, 704, 4, 4, 2, 4096)


def root() -> Path:
    """``FORENSICS_CACHE``, else ``model-forensics`` in the user's cache folder; then ``speed``."""
    chosen = os.environ.get("FORENSICS_CACHE")
    base = (
        Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "model-forensics"
    )
    return base / "speed"


def checkpoint(shape: Shape, folder: Path) -> Path:
    """The checkpoint's folder under ``folder``; written when it is not there yet."""
    target = folder / shape.name
    if not (target / "config.json").exists():
        target.mkdir(parents=True, exist_ok=True)
        _write(shape, target / "model.safetensors")
        (target / "config.json").write_text(json.dumps(shape.config))
    return target


def _write(shape: Shape, path: Path) -> None:
    """One safetensors file, tensor by tensor, in bounded memory."""
    header: dict[str, object] = {}
    at = 0
    for name, dims in shape.tensors():
        size = 2 * _numel(dims)
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = torch.Generator().manual_seed(0)
    pool = (0.02 * torch.randn(POOL, generator=generator)).to(torch.bfloat16)
    ones = torch.ones(shape.hidden, dtype=torch.bfloat16)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, (_, dims) in enumerate(shape.tensors()):
            if len(dims) == 1:
                file.write(_bytes(ones))
                continue
            offset, left = number * 1_000_003 % POOL, _numel(dims)
            while left:
                part = pool[offset : offset + left]
                file.write(_bytes(part))
                offset, left = 0, left - part.numel()


def _bytes(tensor: torch.Tensor) -> memoryview:
    return tensor.contiguous().view(torch.uint8).numpy().data


def _numel(dims: tuple[int, ...]) -> int:
    count = 1
    for size in dims:
        count *= size
    return count
