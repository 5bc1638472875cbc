"""Names that say nothing, names that lie, configs that lie: the weights still tell."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import pytest
import torch

from fingerprint.architecture import read, recognise
from fingerprint.architecture.interface import Layout, Role, Slot
from tests.fingerprint.memory import MemoryCheckpoint

from .planted import CONFIG, HEAD_DIM, HEADS, KV_HEADS, planted


def digest(text: str) -> str:
    return "".join(c for c in hashlib.sha256(text.encode()).hexdigest() if c.isalpha())


def number_only(name: str) -> str:
    found = re.search(r"\.(\d+)\.", name)
    return f"a/{found[1]}/{digest(re.sub(r'[0-9]+', '', name))}" if found else f"a/{digest(name)}"


def separators(name: str) -> str:
    return re.sub(r"\.(\d+)\.", lambda m: f".L{int(m[1]) + 100}.", name).replace(".", "/")


def numbered(name: str) -> str:
    return f"tensor_{digest(name)}"


RENAMES: dict[str, Callable[[str], str]] = {"number": number_only, "separators": separators, "order": numbered}


def assert_same_roles(state: dict[str, torch.Tensor], stored: MemoryCheckpoint, layout: Layout) -> None:
    truth = MemoryCheckpoint(state, CONFIG)
    for slot, view in recognise(truth).slots.items():
        assert torch.equal(read(stored, layout.slots[slot]), read(truth, view)), slot


@pytest.mark.parametrize("scheme", RENAMES)
@pytest.mark.parametrize("config", [CONFIG, {}])
def test_roles_survive_renaming(scheme: str, config: dict[str, object]) -> None:
    state = planted()
    stored = MemoryCheckpoint({RENAMES[scheme](name): tensor for name, tensor in state.items()}, config)
    layout = recognise(stored)
    assert layout.source == "shapes"
    assert not layout.ambiguous
    assert_same_roles(state, stored, layout)
    assert (layout.dims.heads, layout.dims.kv_heads, layout.dims.head_dim) == (HEADS, KV_HEADS, HEAD_DIM)


def test_matrices_stored_the_other_way_round_are_turned() -> None:
    state = planted()
    turned = {
        name: tensor.T.contiguous() if tensor.ndim == 2 and "layers" in name else tensor
        for name, tensor in state.items()
    }
    for rename in (str, number_only):
        stored = MemoryCheckpoint({rename(name): tensor for name, tensor in turned.items()}, CONFIG)
        assert_same_roles(state, stored, recognise(stored))


def test_names_whose_shapes_refute_them_are_not_believed() -> None:
    state = planted()
    shift = {"q_proj": "down_proj", "down_proj": "gate_proj", "gate_proj": "k_proj", "k_proj": "q_proj"}

    def lie(name: str) -> str:
        return next((name.replace(a, b) for a, b in shift.items() if a in name), name)

    stored = MemoryCheckpoint({lie(name): tensor for name, tensor in state.items()}, CONFIG)
    layout = recognise(stored)
    assert layout.source == "shapes"
    for layer in range(3):
        got = read(stored, layout.slots[Slot(Role.DOWN, layer)])
        assert torch.equal(got, state[f"model.layers.{layer}.mlp.down_proj.weight"])


@pytest.mark.parametrize("heads", [3, 12, 5, 7, 0])
def test_a_config_that_lies_about_heads_is_overruled(heads: int) -> None:
    config = {
        **CONFIG,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": 96 // heads if heads else 0,
    }
    layout = recognise(MemoryCheckpoint(planted(), config))
    assert layout.dims.head_dim == HEAD_DIM
    assert layout.source == "names" or heads == 0


def test_a_config_that_lies_about_sizes_is_noted() -> None:
    layout = recognise(MemoryCheckpoint(planted(), CONFIG | {"hidden_size": 4096, "num_hidden_layers": 99}))
    assert layout.dims.hidden == 96
    assert "config contradicts shapes: hidden got 4096, expected 96" in layout.notes
    assert layout.source == "names"


def test_anything_else_keeps_its_own_names() -> None:
    state = {
        "conv.weight": torch.randn(8, 3, 3, 3),
        "lstm.weight_ih_l0": torch.randn(32, 8),
        "scale": torch.tensor(2.0),
    }
    layout = recognise(MemoryCheckpoint(state))
    assert layout.family == "generic"
    assert {slot.name for slot in layout.slots} == set(state)
    assert all(view.whole for view in layout.slots.values())


def test_a_shuffled_bag_gives_back_each_layers_mlp_and_attention() -> None:
    state = planted()
    stored = MemoryCheckpoint(dict(sorted((hashlib.sha256(n.encode()).hexdigest()[:9], t) for n, t in state.items())))
    layout = recognise(stored)
    assert ("layer", "layer") in layout.ambiguous
    where = {tensor.data_ptr(): name for name, tensor in state.items()}
    found = {slot: where[stored._data[view.tensor].data_ptr()] for slot, view in layout.slots.items()}
    stems = {
        Role.GATE: "gate_proj",
        Role.UP: "up_proj",
        Role.DOWN: "down_proj",
        Role.QUERY: "q_proj",
        Role.OUT: "o_proj",
    }
    for role, stem in stems.items():
        assert all(stem in found[Slot(role, layer)] for layer in range(3)), role
    for partners in ((Role.GATE, Role.UP, Role.DOWN), (Role.QUERY, Role.KEY), (Role.VALUE, Role.OUT)):
        for layer in range(3):
            assert len({found[Slot(role, layer)].split(".")[2] for role in partners}) == 1, partners
    assert found[Slot(Role.HEAD)] == "lm_head.weight"
