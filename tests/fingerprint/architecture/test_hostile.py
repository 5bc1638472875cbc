"""Whatever a copier writes into names and configs, recognition answers, quickly, and loses nothing."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fingerprint.architecture import read, recognise
from fingerprint.architecture.config import MAX_SIZE, read_hints
from tests.fingerprint.memory import MemoryCheckpoint

from .planted import CONFIG, planted

KEYS = st.sampled_from(
    [*CONFIG, "n_head", "n_embd", "text_config", "rope_parameters", "rotary_pct", "alibi", "rotary_dim"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
WORDS = (
    "model",
    "layers",
    "h",
    "0",
    "1",
    "7",
    "999999",
    "self_attn",
    "attn",
    "q_proj",
    "c_attn",
    "qkv_proj",
    "wq",
    "mlp",
)
MORE = (
    "experts",
    "gate_up_proj",
    "down_proj",
    "query_key_value",
    "weight",
    "bias",
    "norm",
    "embed_tokens",
    "",
    "é",
    "L3",
)
NAMES = st.lists(st.sampled_from(WORDS + MORE), min_size=1, max_size=6).map(".".join)
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 8, 16, 24]), max_size=3).map(tuple)
STATE = planted()


def check(stored: MemoryCheckpoint) -> None:
    layout = recognise(stored)
    sizes = dict.fromkeys(stored.tensors, 0)
    for view in layout.slots.values():
        assert read(stored, view).shape == view.shape
        sizes[view.tensor] += prod(view.shape)
    assert sizes == {name: info.numel for name, info in stored.tensors.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_absurd_configs_say_nothing_or_something_bounded(config: Any) -> None:
    hints = read_hints(config)
    assert all(
        0 <= size <= MAX_SIZE for size in (hints.hidden, hints.layers, hints.heads, hints.vocab, hints.rotary_dim)
    )
    assert 0 <= hints.rotary_fraction <= 1


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_absurd_configs_never_break_recognition(config: dict[str, Any]) -> None:
    stored = MemoryCheckpoint(STATE, CONFIG | config)
    layout = recognise(stored)
    assert layout.dims.hidden == 96
    assert layout.rotary_dim <= layout.dims.head_dim
    check(stored)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, SHAPES, max_size=12), st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_names_and_shapes_are_partitioned(shapes: dict[str, tuple[int, ...]], config: dict[str, Any]) -> None:
    check(MemoryCheckpoint({name: torch.zeros(shape) for name, shape in shapes.items()}, config))


def test_values_that_are_not_numbers_break_nothing() -> None:
    broken = {name: torch.full_like(tensor, float("nan")) for name, tensor in STATE.items()}
    check(MemoryCheckpoint({f"t{place}": tensor for place, tensor in enumerate(broken.values())}, {}))
    check(MemoryCheckpoint(broken, {}))


def test_many_tensors_of_one_shape_take_no_time() -> None:
    state = {f"x{place:05d}q": torch.zeros(8, 8) for place in range(3000)}
    check(MemoryCheckpoint(state, {}))
