"""What cheats do to a model they did not train: section 4 and 5 of design/2-weights, on the demo's small decoders.

Functions take a state dict in transformers' Qwen3 names and return a new one; none changes its argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from forensics.demo.decoder import CONFIG, Weights

LAYERS = int(CONFIG["num_hidden_layers"])
QUERY_HEADS = int(CONFIG["num_attention_heads"])
KV_HEADS = int(CONFIG["num_key_value_heads"])
HEAD = int(CONFIG["head_dim"])

OTHER_NAMES = (
    (r"^model\.embed_tokens", "tok_embeddings"),
    (r"^model\.norm", "norm"),
    (r"^lm_head", "output"),
    (r"^model\.layers\.(\d+)\.self_attn\.q_proj", r"layers.\1.attention.wq"),
    (r"^model\.layers\.(\d+)\.self_attn\.k_proj", r"layers.\1.attention.wk"),
    (r"^model\.layers\.(\d+)\.self_attn\.v_proj", r"layers.\1.attention.wv"),
    (r"^model\.layers\.(\d+)\.self_attn\.o_proj", r"layers.\1.attention.wo"),
    (r"^model\.layers\.(\d+)\.self_attn\.", r"layers.\1.attention."),
    (r"^model\.layers\.(\d+)\.mlp\.gate_proj", r"layers.\1.feed_forward.w1"),
    (r"^model\.layers\.(\d+)\.mlp\.down_proj", r"layers.\1.feed_forward.w2"),
    (r"^model\.layers\.(\d+)\.mlp\.up_proj", r"layers.\1.feed_forward.w3"),
    (r"^model\.layers\.(\d+)\.input_layernorm", r"layers.\1.attention_norm"),
    (r"^model\.layers\.(\d+)\.post_attention_layernorm", r"layers.\1.ffn_norm"),
)


def renamed(weights: Weights) -> Weights:
    """Another convention's names for the same tensors."""
    return {_other_name(name): tensor for name, tensor in weights.items()}


def cast(weights: Weights, dtype: torch.dtype) -> Weights:
    """Every floating-point tensor in another dtype."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in weights.items()}


def permuted(weights: Weights, *, seed: int) -> Weights:
    """MLP units, key/value groups and the query heads inside them in another order; units rescaled, signs included."""
    out, draw = dict(weights), torch.Generator().manual_seed(seed)
    for layer in range(LAYERS):
        mlp, attention = f"model.layers.{layer}.mlp.", f"model.layers.{layer}.self_attn."
        units = torch.randperm(out[f"{mlp}up_proj.weight"].shape[0], generator=draw)
        scale = torch.exp(torch.randn(units.numel(), generator=draw) * 0.3)
        scale = scale * (torch.randint(0, 2, (units.numel(),), generator=draw) * 2 - 1)
        _change(out, f"{mlp}gate_proj.weight", lambda w, u=units: w[u])  # type: ignore[misc]
        _change(out, f"{mlp}up_proj.weight", lambda w, u=units, s=scale: w[u] * s[:, None])  # type: ignore[misc]
        _change(out, f"{mlp}down_proj.weight", lambda w, u=units, s=scale: w[:, u] / s)  # type: ignore[misc]
        groups = torch.randperm(KV_HEADS, generator=draw)
        share = QUERY_HEADS // KV_HEADS
        heads = torch.cat([g * share + torch.randperm(share, generator=draw) for g in groups])
        query, key = _lanes(heads), _lanes(groups)
        _change(out, f"{attention}q_proj.weight", lambda w, q=query: w[q])  # type: ignore[misc]
        _change(out, f"{attention}k_proj.weight", lambda w, k=key: w[k])  # type: ignore[misc]
        _change(out, f"{attention}v_proj.weight", lambda w, k=key: w[k])  # type: ignore[misc]
        _change(out, f"{attention}o_proj.weight", lambda w, q=query: w[:, q])  # type: ignore[misc]
    return out


def permuted_encoder(weights: Weights, *, seed: int) -> Weights:
    """MLP units of a BERT encoder in another order; its GELU allows nothing else."""
    out, draw = dict(weights), torch.Generator().manual_seed(seed)
    for first in [n for n in weights if n.endswith(".intermediate.dense.weight")]:
        second = first.replace(".intermediate.", ".output.")
        units = torch.randperm(out[first].shape[0], generator=draw)
        out[first] = out[first][units]
        out[first.replace("weight", "bias")] = out[first.replace("weight", "bias")][units]
        out[second] = out[second][:, units].contiguous()
    return out


def rotated(weights: Weights, *, seed: int) -> Weights:
    """Norms folded into their readers, then the residual stream turned by a random rotation and stretched."""
    out, width = dict(weights), int(CONFIG["hidden_size"])
    draw = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(width, width, generator=draw, dtype=torch.float64))[0]
    stretch = 1.7
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        readers = [f"{at}self_attn.{n}_proj.weight" for n in "qkv"]
        _fold(out, f"{at}input_layernorm.weight", readers, turn)
        _fold(out, f"{at}post_attention_layernorm.weight", [f"{at}mlp.{n}_proj.weight" for n in ("gate", "up")], turn)
        for writer in (f"{at}self_attn.o_proj.weight", f"{at}mlp.down_proj.weight"):
            _change(out, writer, lambda w: turn.T @ w * stretch)
    _fold(out, "model.norm.weight", ["lm_head.weight"], turn)
    _change(out, "model.embed_tokens.weight", lambda w: w @ turn * stretch)
    return out


def noisy(weights: Weights, sigma: float, *, seed: int) -> Weights:
    """Gaussian noise of ``sigma`` times each matrix's own root mean square."""
    draw = torch.Generator().manual_seed(seed)

    def disturb(w: torch.Tensor) -> torch.Tensor:
        return w + torch.randn(w.shape, generator=draw, dtype=w.dtype) * w.square().mean().sqrt() * sigma

    return _matrices(weights, disturb)


def quantised(weights: Weights) -> Weights:
    """Through int8 codes with one scale a row, and back."""

    def round_trip(w: torch.Tensor) -> torch.Tensor:
        scale = w.abs().amax(dim=1, keepdim=True) / 127
        return (w / scale).round() * scale

    return _matrices(weights, round_trip)


def blended(parts: list[tuple[float, Weights]]) -> Weights:
    """A weighted sum of models: a soup, or one model pulled toward another."""
    _, first = parts[0]
    return {
        name: torch.stack([share * w[name].double() for share, w in parts]).sum(0).to(tensor.dtype)
        for name, tensor in first.items()
    }


def _fold(out: Weights, gain: str, readers: list[str], turn: torch.Tensor) -> None:
    g = out[gain].double()
    for reader in readers:
        _change(out, reader, lambda w: w * g @ turn)
    out[gain] = torch.ones_like(out[gain])


def _change(out: Weights, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace one tensor, computed in float64 and stored in its own dtype."""
    out[name] = change(out[name].double()).to(out[name].dtype).contiguous()


def _matrices(weights: Weights, change: Callable[[torch.Tensor], torch.Tensor]) -> Weights:
    return {
        name: change(tensor.double()).to(tensor.dtype) if tensor.dim() == 2 and tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }


def _lanes(heads: torch.Tensor) -> torch.Tensor:
    """Row numbers of whole heads in the given order."""
    return (heads[:, None] * HEAD + torch.arange(HEAD)).flatten()


def _other_name(name: str) -> str:
    for pattern, instead in OTHER_NAMES:
        changed = re.sub(pattern, instead, name)
        if changed != name:
            return changed
    return name
