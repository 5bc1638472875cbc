"""Random decoders small enough for a test, and the changes of design/2-weights section 4 that keep their function.

Random weights, with one thing borrowed from trained ones: some gate and up rows point the same way, so that choosing
units by the angle between them is well defined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from .memory import MemoryCheckpoint

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Decoder:
    """Llama-shaped weights in float64, and what a config would say."""

    weights: Weights
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    layers: int = 2
    units: int = 160
    vocab: int = 200
    qk_norm: bool = False

    @property
    def size(self) -> int:
        return self.hidden // self.heads

    @property
    def config(self) -> dict[str, object]:
        return {
            "architectures": ["Qwen3ForCausalLM" if self.qk_norm else "LlamaForCausalLM"],
            "model_type": "qwen3" if self.qk_norm else "llama",
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.units,
            "vocab_size": self.vocab,
            "head_dim": self.size,
            "tie_word_embeddings": False,
        }

    def checkpoint(self, dtype: torch.dtype = torch.float32, tokens: list[str] | None = None) -> MemoryCheckpoint:
        return MemoryCheckpoint({k: v.to(dtype) for k, v in self.weights.items()}, self.config, tokens=tokens)


def random_decoder(seed: int = 0, *, qk_norm: bool = False) -> Decoder:
    g = torch.Generator().manual_seed(seed)
    d = Decoder({}, qk_norm=qk_norm)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64) / shape[-1] ** 0.5

    def gain(size: int) -> torch.Tensor:
        return 0.5 + torch.rand(size, generator=g, dtype=torch.float64)

    w: Weights = {
        "model.embed_tokens.weight": normal(d.vocab, d.hidden) * 8,
        "lm_head.weight": normal(d.vocab, d.hidden),
    }
    w["model.norm.weight"] = gain(d.hidden)
    for i in range(d.layers):
        p = f"model.layers.{i}"
        w[f"{p}.input_layernorm.weight"] = gain(d.hidden)
        w[f"{p}.post_attention_layernorm.weight"] = gain(d.hidden)
        w[f"{p}.self_attn.q_proj.weight"] = normal(d.heads * d.size, d.hidden)
        w[f"{p}.self_attn.k_proj.weight"] = normal(d.kv_heads * d.size, d.hidden)
        w[f"{p}.self_attn.v_proj.weight"] = normal(d.kv_heads * d.size, d.hidden)
        w[f"{p}.self_attn.o_proj.weight"] = normal(d.hidden, d.heads * d.size)
        if qk_norm:
            w[f"{p}.self_attn.q_norm.weight"] = gain(d.size)
            w[f"{p}.self_attn.k_norm.weight"] = gain(d.size)
        gate, up = normal(d.units, d.hidden), normal(d.units, d.hidden)
        lean = torch.rand(d.units, 1, generator=g, dtype=torch.float64) * 2
        w[f"{p}.mlp.gate_proj.weight"] = gate
        w[f"{p}.mlp.up_proj.weight"] = up + lean * gate
        w[f"{p}.mlp.down_proj.weight"] = normal(d.hidden, d.units)
    return replace(d, weights=w)


Change = Callable[[Decoder], Decoder]


def _generator(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _each_layer(decoder: Decoder, change: Callable[[Weights, str], None]) -> Decoder:
    w = {k: v.clone() for k, v in decoder.weights.items()}
    for i in range(decoder.layers):
        change(w, f"model.layers.{i}")
    return replace(decoder, weights=w)


def fold(decoder: Decoder) -> Decoder:
    def change(w: Weights, p: str) -> None:
        for norm, readers in (
            ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
        ):
            for reader in readers:
                w[f"{p}.{reader}.weight"] *= w[f"{p}.{norm}.weight"]
            w[f"{p}.{norm}.weight"] = torch.ones(decoder.hidden, dtype=torch.float64)

    folded = _each_layer(decoder, change)
    folded.weights["lm_head.weight"] = folded.weights["lm_head.weight"] * folded.weights["model.norm.weight"]
    folded.weights["model.norm.weight"] = torch.ones(decoder.hidden, dtype=torch.float64)
    return folded


def rotate_residual(decoder: Decoder) -> Decoder:
    r, _ = torch.linalg.qr(torch.randn(decoder.hidden, decoder.hidden, generator=_generator(), dtype=torch.float64))

    def change(w: Weights, p: str) -> None:
        for reader in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            w[f"{p}.{reader}.weight"] = w[f"{p}.{reader}.weight"] @ r
        for writer in ("self_attn.o_proj", "mlp.down_proj"):
            w[f"{p}.{writer}.weight"] = r.T @ w[f"{p}.{writer}.weight"]

    turned = _each_layer(fold(decoder), change)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        turned.weights[name] = turned.weights[name] @ r
    return turned


def fake_gains(decoder: Decoder) -> Decoder:
    g = 0.5 + torch.rand(decoder.hidden, generator=_generator(), dtype=torch.float64)

    def change(w: Weights, p: str) -> None:
        for reader in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            w[f"{p}.{reader}.weight"] /= g
        w[f"{p}.input_layernorm.weight"] = g.clone()
        w[f"{p}.post_attention_layernorm.weight"] = g.clone()

    return _each_layer(fold(decoder), change)


def rescale_residual(decoder: Decoder) -> Decoder:
    def change(w: Weights, p: str) -> None:
        w[f"{p}.self_attn.o_proj.weight"] *= 1.7
        w[f"{p}.mlp.down_proj.weight"] *= 1.7

    scaled = _each_layer(decoder, change)
    scaled.weights["model.embed_tokens.weight"] *= 1.7
    return scaled


def permute_units(decoder: Decoder) -> Decoder:
    def change(w: Weights, p: str) -> None:
        order = torch.randperm(decoder.units, generator=_generator(len(p)))
        for name in ("gate_proj", "up_proj"):
            w[f"{p}.mlp.{name}.weight"] = w[f"{p}.mlp.{name}.weight"][order]
        w[f"{p}.mlp.down_proj.weight"] = w[f"{p}.mlp.down_proj.weight"][:, order]

    return _each_layer(decoder, change)


def scale_units(decoder: Decoder) -> Decoder:
    def change(w: Weights, p: str) -> None:
        s = torch.randn(decoder.units, generator=_generator(), dtype=torch.float64)
        s = torch.where(s.abs() < 0.1, torch.ones_like(s), s)
        w[f"{p}.mlp.up_proj.weight"] *= s[:, None]
        w[f"{p}.mlp.down_proj.weight"] /= s[None, :]

    return _each_layer(decoder, change)


def mix_value_output(decoder: Decoder) -> Decoder:
    size, group = decoder.size, decoder.heads // decoder.kv_heads

    def change(w: Weights, p: str) -> None:
        m = torch.eye(size, dtype=torch.float64) + 0.15 * torch.randn(
            size, size, generator=_generator(), dtype=torch.float64
        )
        inverse = torch.linalg.inv(m)
        v, o = w[f"{p}.self_attn.v_proj.weight"], w[f"{p}.self_attn.o_proj.weight"]
        for k in range(decoder.kv_heads):
            v[k * size : (k + 1) * size] = m @ v[k * size : (k + 1) * size]
            for h in range(k * group, (k + 1) * group):
                o[:, h * size : (h + 1) * size] = o[:, h * size : (h + 1) * size] @ inverse

    return _each_layer(decoder, change)


def rotate_query_key(decoder: Decoder) -> Decoder:
    """Per frequency pair (i, i + dh/2): a rotation and a scale."""
    size, half = decoder.size, decoder.size // 2

    def change(w: Weights, p: str) -> None:
        g = _generator()
        for k in range(decoder.kv_heads):
            angle = torch.rand(half, generator=g, dtype=torch.float64) * 6.28
            scale = 0.5 + torch.rand(half, generator=g, dtype=torch.float64)
            s = torch.zeros(size, size, dtype=torch.float64)
            i = torch.arange(half)
            s[i, i] = s[i + half, i + half] = scale * torch.cos(angle)
            s[i, i + half], s[i + half, i] = -scale * torch.sin(angle), scale * torch.sin(angle)
            group = decoder.heads // decoder.kv_heads
            kw, qw = w[f"{p}.self_attn.k_proj.weight"], w[f"{p}.self_attn.q_proj.weight"]
            kw[k * size : (k + 1) * size] = s @ kw[k * size : (k + 1) * size]
            back = torch.linalg.inv(s).T
            for h in range(k * group, (k + 1) * group):
                qw[h * size : (h + 1) * size] = back @ qw[h * size : (h + 1) * size]

    return _each_layer(decoder, change)


def permute_heads(decoder: Decoder) -> Decoder:
    """Swap KV groups, and query heads inside each group."""
    size, group = decoder.size, decoder.heads // decoder.kv_heads
    kv = list(range(decoder.kv_heads))[::-1]
    query = [k * group + j for k in kv for j in reversed(range(group))]
    rows_kv = torch.cat([torch.arange(k * size, (k + 1) * size) for k in kv])
    rows_q = torch.cat([torch.arange(h * size, (h + 1) * size) for h in query])

    def change(w: Weights, p: str) -> None:
        for name in ("k_proj", "v_proj"):
            w[f"{p}.self_attn.{name}.weight"] = w[f"{p}.self_attn.{name}.weight"][rows_kv]
        w[f"{p}.self_attn.q_proj.weight"] = w[f"{p}.self_attn.q_proj.weight"][rows_q]
        w[f"{p}.self_attn.o_proj.weight"] = w[f"{p}.self_attn.o_proj.weight"][:, rows_q]

    return _each_layer(decoder, change)


def everything(decoder: Decoder) -> Decoder:
    for change in (rotate_residual, fake_gains, permute_units, scale_units, mix_value_output, permute_heads):
        decoder = change(decoder)
    return decoder


SYMMETRIES: tuple[Change, ...] = (
    fold,
    rotate_residual,
    fake_gains,
    rescale_residual,
    permute_units,
    scale_units,
    mix_value_output,
    rotate_query_key,
    permute_heads,
    everything,
)


def sorted_rows(rows: np.ndarray) -> np.ndarray:
    """Rows in an order that depends on their values alone, rounded so that noise does not reorder them."""
    rounded = np.round(rows.astype(np.float64), 1)
    return rows[np.lexsort(rounded.T[::-1])]
