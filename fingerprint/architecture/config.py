"""What a config claims, made safe: sizes within bounds or nothing.

``config.json`` is written by whoever is being judged. Everything here takes any JSON value whatever and answers with
plain bounded integers, so that no later step can be made to crash, divide by zero or allocate by a claim. Claims are
only ever *compared* with shapes; where they contradict, shapes win and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

MAX_SIZE = 1 << 24
"""Largest size believed of any axis, layer or head count (largest known vocabulary is about 2^18)."""

FIELDS: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "n_embed", "embedding_length"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "block_count"),
    "heads": (
        "num_attention_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "attention.head_count",
        "encoder_attention_heads",
    ),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "attention.head_count_kv"),
    "head_dim": ("head_dim", "d_head", "attention.key_length", "kv_channels"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size", "feed_forward_length"),
    "vocab": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "expert_count"),
}
"""Field of ``Dims`` to the names it goes by, first found wins. GGUF metadata has the same names after ``arch.``."""

NESTED = ("text_config", "llm_config", "language_config", "decoder")
OFFSET_GAINS = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text", "qwen3_next", "recurrent_gemma", "paligemma"})
NO_ROPE = frozenset({"bloom", "mpt", "gpt2", "gpt_bigcode", "opt", "bert", "roberta", "distilbert", "xlm-roberta"})
QUARTER_ROTARY = frozenset({"gpt_neox"})


@dataclass(frozen=True)
class Hints:
    """Claims of a config. Zero, empty or None: it says nothing usable."""

    model_type: str = ""
    hidden: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    vocab: int = 0
    experts: int = 0
    rotary_dim: int = 0
    rotary_fraction: float = 0.0
    alibi: bool = False
    tied: bool | None = None

    @property
    def offset_gains(self) -> bool:
        """Whether the family stores gain - 1 (Gemma)."""
        return self.model_type in OFFSET_GAINS

    @property
    def rotary(self) -> bool:
        """Whether nothing speaks against rotary positions."""
        return not self.alibi and self.model_type not in NO_ROPE


def read_hints(config: object) -> Hints:
    """Read what ``config`` claims; never raises and never looks deeper than one nested text model.

    Args:
        config: Anything; a mapping is looked into, the rest says nothing.

    Returns:
        Bounded claims.
    """
    flat = _flatten(config)
    sizes = {field: _size(flat, names) for field, names in FIELDS.items()}
    rope = flat.get("rope_parameters")
    fraction = _fraction(flat, ("partial_rotary_factor", "rotary_pct", "rotary_percent"))
    if not fraction and isinstance(rope, Mapping):
        fraction = _fraction(rope, ("partial_rotary_factor",))
    kind = flat.get("model_type", flat.get("general.architecture", ""))
    tied = flat.get("tie_word_embeddings")
    return Hints(
        model_type=kind[:64].lower() if isinstance(kind, str) else "",
        rotary_dim=_size(flat, ("rotary_dim", "rope.dimension_count")),
        rotary_fraction=fraction,
        alibi=flat.get("alibi") is True,
        tied=tied if isinstance(tied, bool) else None,
        **sizes,
    )


def _flatten(config: object) -> dict[str, Any]:
    if not isinstance(config, Mapping):
        return {}
    flat = {key: value for key, value in config.items() if isinstance(key, str)}
    for key in NESTED:
        inner = flat.get(key)
        if isinstance(inner, Mapping):
            flat |= {name: value for name, value in inner.items() if isinstance(name, str)}
            break
    kind = flat.get("general.architecture")
    if isinstance(kind, str) and kind:
        flat |= {key.removeprefix(f"{kind}."): value for key, value in flat.items() if key.startswith(f"{kind}.")}
    return flat


def _size(flat: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = flat.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_SIZE:
            return value
    return 0


def _fraction(flat: Mapping[str, Any], names: tuple[str, ...]) -> float:
    for name in names:
        value = flat.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1 and isfinite(value):
            return float(value)
    return 0.0
