"""A decoder with the marks that training leaves, planted: cheap, and the truth is known."""

from __future__ import annotations

import torch

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, UNITS, VOCAB = 96, 3, 6, 3, 16, 160, 300


def planted(seed: int = 0) -> dict[str, torch.Tensor]:
    """A Llama state dict: partners aligned, gate rows with a common direction, heads with their own."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g)

    state = {"model.embed_tokens.weight": draw(VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        gains = [1 + 0.3 * draw(HIDDEN) for _ in range(2)]
        key, value = (draw(KV_HEADS, HEAD_DIM, HIDDEN) + 1.5 * draw(KV_HEADS, 1, HIDDEN) for _ in range(2))
        wide_key, wide_value = (x.repeat_interleave(HEADS // KV_HEADS, 0).reshape(-1, HIDDEN) for x in (key, value))
        up = draw(UNITS, HIDDEN)
        parts = {
            "input_layernorm": gains[0],
            "self_attn.q_proj": (draw(HEADS * HEAD_DIM, HIDDEN) + 0.7 * wide_key) * gains[0],
            "self_attn.k_proj": key.reshape(-1, HIDDEN) * gains[0],
            "self_attn.v_proj": value.reshape(-1, HIDDEN) * gains[0],
            "self_attn.o_proj": (draw(HEADS * HEAD_DIM, HIDDEN) + 0.7 * wide_value).T,
            "post_attention_layernorm": gains[1],
            "mlp.gate_proj": (draw(UNITS, HIDDEN) + 0.5 * draw(1, HIDDEN) + 0.4 * up) * gains[1],
            "mlp.up_proj": up * gains[1],
            "mlp.down_proj": (draw(UNITS, HIDDEN) + 0.7 * up).T,
        }
        state |= {f"model.layers.{layer}.{name}.weight": tensor.contiguous() for name, tensor in parts.items()}
    state["model.norm.weight"] = 1 + 0.3 * draw(HIDDEN)
    state["lm_head.weight"] = draw(VOCAB, HIDDEN) + draw(1, HIDDEN)
    return state


CONFIG = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "intermediate_size": UNITS,
    "vocab_size": VOCAB,
}
