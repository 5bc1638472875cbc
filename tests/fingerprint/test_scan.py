"""Scan: the same model gives the same fingerprint however it lies, and odd tensors break nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint import file
from fingerprint.architecture.interface import Role, Slot
from fingerprint.checkpoint import open_checkpoint
from fingerprint.fingerprint import IDS, Fingerprint
from fingerprint.scan import scan

from .decoders import random_decoder
from .memory import MemoryCheckpoint

DECODER = random_decoder(0)


@pytest.fixture(scope="module")
def reference() -> Fingerprint:
    return scan(DECODER.checkpoint())


def test_threads_do_not_change_a_byte(reference: Fingerprint) -> None:
    assert file.dumps(scan(DECODER.checkpoint(), threads=1)) == file.dumps(reference)
    assert file.dumps(scan(DECODER.checkpoint(), threads=5)) == file.dumps(reference)


def test_resharding_keeps_everything_but_the_files(tmp_path: Path) -> None:
    weights = {k: v.to(torch.float32) for k, v in DECODER.weights.items()}
    names = sorted(weights)
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(DECODER.config))
    safetensors.torch.save_file(weights, one / "model.safetensors")
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, part in shards.items():
        safetensors.torch.save_file({n: weights[n] for n in part}, two / shard)
    index = {"metadata": {}, "weight_map": {n: shard for shard, part in shards.items() for n in part}}
    (two / "model.safetensors.index.json").write_text(json.dumps(index))
    with open_checkpoint(one) as first, open_checkpoint(two) as second:
        a, b = scan(first), scan(second)
    assert a.content_root == b.content_root
    assert a.meta.files != b.meta.files
    assert file.dumps(replace(a, meta=replace(a.meta, files=b.meta.files))) == file.dumps(b)
    assert a.content_root == scan(DECODER.checkpoint()).content_root


def test_roots_tell_renames_and_casts_apart(reference: Fingerprint) -> None:
    weights = {k: v.to(torch.float32) for k, v in DECODER.weights.items()}
    renamed = scan(MemoryCheckpoint({f"other.{i}": v for i, v in enumerate(weights.values())}))
    cast = scan(DECODER.checkpoint(torch.bfloat16))
    assert renamed.content_root != reference.content_root
    assert renamed.nameless_root == reference.nameless_root
    assert cast.content_root != reference.content_root
    assert cast.value_root == reference.value_root
    assert cast.nameless_value_root == reference.nameless_value_root
    assert cast.value_root == cast.content_root


def test_sketches_follow_the_values(reference: Fingerprint) -> None:
    name = "model.layers.1.mlp.down_proj.weight"
    weights = {k: v.to(torch.float32) for k, v in DECODER.weights.items()}
    changed = scan(MemoryCheckpoint({**weights, name: weights[name] * 1.01}, DECODER.config))
    slot = Slot(Role.DOWN, 1)
    assert changed.slots[slot].norm == pytest.approx(1.01 * reference.slots[slot].norm, rel=1e-5)
    np.testing.assert_allclose(changed.slots[slot].linear, 1.01 * reference.slots[slot].linear, rtol=1e-4, atol=1e-5)
    for other, sketch in reference.slots.items():
        if other != slot:
            np.testing.assert_array_equal(changed.slots[other].linear, sketch.linear)
    gain = reference.slots[Slot(Role.NORM_MLP, 1)]
    assert gain.whole
    np.testing.assert_array_equal(gain.linear, weights["model.layers.1.post_attention_layernorm.weight"].numpy())


def test_fused_and_separate_projections_read_alike(reference: Fingerprint) -> None:
    """Phi-3 stores q, k, v as one matrix, and gate and up as one; slots, sketches and invariants are the same."""
    weights = {k: v.to(torch.float32) for k, v in DECODER.weights.items()}
    for i in range(DECODER.layers):
        p = f"model.layers.{i}"
        qkv = [weights.pop(f"{p}.self_attn.{n}_proj.weight") for n in "qkv"]
        weights[f"{p}.self_attn.qkv_proj.weight"] = torch.cat(qkv)
        gate_up = [weights.pop(f"{p}.mlp.{n}_proj.weight") for n in ("gate", "up")]
        weights[f"{p}.mlp.gate_up_proj.weight"] = torch.cat(gate_up)
    config = {**DECODER.config, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3"}
    fused = scan(MemoryCheckpoint(weights, config))
    assert set(fused.slots) == set(reference.slots)
    for slot, sketch in reference.slots.items():
        np.testing.assert_allclose(fused.slots[slot].linear, sketch.linear, rtol=1e-5, atol=1e-6)
    for index, layer in reference.layers.items():
        assert layer.units is not None
        units = fused.layers[index].units
        assert units is not None
        np.testing.assert_allclose(units.gate[IDS].astype(float), layer.units.gate[IDS].astype(float), atol=2e-3)
    assert len(fused.tensors) == len(weights)


def test_poisoned_rows_are_counted_and_blind_nothing(reference: Fingerprint) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    weights = {k: v.to(torch.float32) for k, v in DECODER.weights.items()}
    weights[name] = weights[name].clone()
    weights[name][3, 5], weights[name][4, 0] = float("nan"), float("inf")
    poisoned = scan(MemoryCheckpoint(weights, DECODER.config))
    slot = poisoned.slots[Slot(Role.UP, 0)]
    assert slot.statistics.nonfinite == 2
    assert np.isfinite(slot.linear).all()
    assert slot.norm == pytest.approx(reference.slots[Slot(Role.UP, 0)].norm, rel=0.05)
    assert file.loads(file.dumps(poisoned)).content_root == poisoned.content_root


def test_progress_ends_at_the_whole() -> None:
    seen: list[tuple[int, int]] = []
    scan(DECODER.checkpoint(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == sum(4 * v.numel() for v in DECODER.weights.values())
    assert seen == sorted(seen)


def test_keys_do_not_mix(reference: Fingerprint) -> None:
    other = scan(DECODER.checkpoint(), key=b"another")
    assert other.meta.key_id != reference.meta.key_id
    assert other.content_root == reference.content_root
    slot = Slot(Role.UP, 0)
    assert not np.allclose(other.slots[slot].linear, reference.slots[slot].linear)


_DTYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool])
_SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_SHAPES, _DTYPES), max_size=5))
def test_any_tensors_scan_and_survive_the_file(specs: list[tuple[tuple[int, ...], torch.dtype]]) -> None:
    tensors = {f"t{i}": torch.ones(shape).to(dtype) for i, (shape, dtype) in enumerate(specs)}
    found = scan(MemoryCheckpoint(tensors))
    assert [t.name for t in found.tensors] == sorted(tensors)
    again = file.loads(file.dumps(found))
    assert file.dumps(again) == file.dumps(found)
    assert again.content_root == found.content_root


def test_generic_tensors_of_any_rank() -> None:
    g = torch.Generator().manual_seed(0)
    tensors = {
        "conv.weight": torch.randn(8, 4, 3, 3, generator=g),
        "scale": torch.tensor(2.0),
        "lstm.weight_ih_l0": torch.randn(32, 10, generator=g),
        "empty": torch.zeros(0, 7),
    }
    found = scan(MemoryCheckpoint(tensors))
    shapes = {sketch.tensor: sketch.shape for sketch in found.slots.values()}
    assert shapes == {name: tuple(t.shape) for name, t in tensors.items()}
    moved = scan(MemoryCheckpoint({**tensors, "conv.weight": tensors["conv.weight"].permute(2, 3, 1, 0).contiguous()}))
    by_name = {t.name: t for t in found.tensors}, {t.name: t for t in moved.tensors}
    assert by_name[0]["conv.weight"].multiset == by_name[1]["conv.weight"].multiset != ""
    assert by_name[0]["conv.weight"].digest != by_name[1]["conv.weight"].digest


def test_rows_of_any_length_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is longer than any model's is cut, and still gives norms and unbiased sketches."""
    monkeypatch.setattr("fingerprint.streaming.MAX_WIDTH", 100)
    monkeypatch.setattr("fingerprint.streaming.WIDE_ROW", 64)
    g = torch.Generator().manual_seed(0)
    monkeypatch.setattr("fingerprint.streaming.MAX_ROWS", 500)
    tensors = {
        "flat": torch.randn(1000, generator=g),
        "wide": torch.randn(3, 130, generator=g),
        "tall": torch.randn(501, 3, generator=g),
    }
    found = {s.tensor: s for s in scan(MemoryCheckpoint(tensors)).slots.values()}
    for name, tensor in tensors.items():
        assert found[name].shape == tuple(tensor.shape)
        assert found[name].norm == pytest.approx(float(tensor.norm()), rel=1e-5)
        assert float((found[name].linear ** 2).sum()) == pytest.approx(float((tensor**2).sum()), rel=1e-3)


def test_a_hostile_layout_allocates_nothing_it_claims() -> None:
    """Heads as wide as the model: products of heads would need the square of it."""
    hidden = 2048
    tensors = {"model.embed_tokens.weight": torch.ones(8, hidden)}
    for n in "qkvo":
        tensors[f"model.layers.0.self_attn.{n}_proj.weight"] = torch.ones(hidden, hidden, dtype=torch.bfloat16)
    config = {"model_type": "llama", "hidden_size": hidden, "num_attention_heads": 1, "num_hidden_layers": 1}
    found = scan(MemoryCheckpoint(tensors, config))
    assert all(layer.heads is None for layer in found.layers.values())
