"""Roles of real families, by names that tell the truth."""

from __future__ import annotations

from math import prod

import pytest
import torch

from fingerprint.architecture import read, read_blocks, recognise
from fingerprint.architecture.interface import SHARED_EXPERT, Layout, Norm, Positions, Role, Slot
from tests.fingerprint.memory import MemoryCheckpoint

from .families import FAMILIES, checkpoint, model

LLAMA = {
    Role.QUERY: "self_attn.q_proj.weight",
    Role.KEY: "self_attn.k_proj.weight",
    Role.VALUE: "self_attn.v_proj.weight",
    Role.OUT: "self_attn.o_proj.weight",
    Role.GATE: "mlp.gate_proj.weight",
    Role.UP: "mlp.up_proj.weight",
    Role.DOWN: "mlp.down_proj.weight",
    Role.NORM_ATTENTION: "input_layernorm.weight",
    Role.NORM_MLP: "post_attention_layernorm.weight",
}
SANDWICH = {
    **LLAMA,
    Role.NORM_POST_ATTENTION: "post_attention_layernorm.weight",
    Role.NORM_MLP: "pre_feedforward_layernorm.weight",
    Role.NORM_POST_MLP: "post_feedforward_layernorm.weight",
}
BIASES = {
    Role.QUERY_BIAS: "self_attn.q_proj.bias",
    Role.KEY_BIAS: "self_attn.k_proj.bias",
    Role.VALUE_BIAS: "self_attn.v_proj.bias",
}
QK_NORM = {Role.QUERY_NORM: "self_attn.q_norm.weight", Role.KEY_NORM: "self_attn.k_norm.weight"}
BERT = {
    Role.QUERY: "attention.self.query.weight",
    Role.KEY_BIAS: "attention.self.key.bias",
    Role.VALUE: "attention.self.value.weight",
    Role.OUT: "attention.output.dense.weight",
    Role.OUT_BIAS: "attention.output.dense.bias",
    Role.NORM_ATTENTION: "attention.output.LayerNorm.weight",
    Role.UP: "intermediate.dense.weight",
    Role.DOWN: "output.dense.weight",
    Role.NORM_MLP_BIAS: "output.LayerNorm.bias",
}
ATTENTION = {role: LLAMA[role] for role in (Role.QUERY, Role.KEY, Role.VALUE, Role.OUT)}
EXPECTED = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA | BIASES,
    "qwen3": LLAMA | QK_NORM,
    "gemma": LLAMA,
    "gemma2": SANDWICH,
    "gemma3": SANDWICH | QK_NORM,
    "bert": BERT,
    "bert-mlm": BERT,
    "roberta": BERT,
    "qwen2_moe": ATTENTION | BIASES,
    "qwen3_moe": ATTENTION | QK_NORM,
    "mixtral": ATTENTION,
}


def layers(family: str) -> torch.nn.ModuleList:
    return next(m for n, m in model(family).named_modules() if n.split(".")[-1] in ("layers", "h", "layer"))


@pytest.mark.parametrize("family", EXPECTED)
def test_each_slot_holds_its_modules_parameter(family: str) -> None:
    stored = checkpoint(family)
    layout = recognise(stored)
    for index, layer in enumerate(layers(family)):
        for role, path in EXPECTED[family].items():
            got = read(stored, layout.slots[Slot(role, index)])
            assert torch.equal(got, layer.get_parameter(path)), (role, index)


@pytest.mark.parametrize("family", FAMILIES)
def test_views_partition_what_is_stored(family: str) -> None:
    stored = checkpoint(family)
    assert_partition(stored, recognise(stored))


def assert_partition(stored: MemoryCheckpoint, layout: Layout) -> None:
    """Every stored element is in exactly one view."""
    seen = {name: torch.zeros(info.shape, dtype=torch.int32) for name, info in stored.tensors.items()}
    for view in layout.slots.values():
        mask = MemoryCheckpoint(
            {view.tensor: torch.arange(prod(seen[view.tensor].shape)).reshape(seen[view.tensor].shape)}
        )
        seen[view.tensor].view(-1)[read(mask, view).reshape(-1)] += 1
        assert read(stored, view).shape == view.shape
    assert all(bool((count == 1).all()) for count in seen.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_agree_with_the_config(family: str) -> None:
    stored = checkpoint(family)
    layout = recognise(stored)
    config = model(family).config
    assert (layout.dims.hidden, layout.dims.layers, layout.dims.heads, layout.dims.vocab) == (32, 2, 4, 128)
    assert layout.dims.head_dim == (getattr(config, "head_dim", None) or 8)
    assert layout.source == "config"
    assert not layout.ambiguous
    assert not [note for note in layout.notes if "contradict" in note]
    others = {slot.name for slot in layout.slots if slot.role is Role.OTHER}
    assert all(name.startswith(("pooler.", "cls.predictions.", "lm_head.")) for name in others)


@pytest.mark.parametrize(
    ("family", "kind", "norm", "positions", "pre_norm", "gated", "tied"),
    [
        ("llama", "decoder", Norm.RMS, Positions.ROPE, True, True, False),
        ("gemma", "decoder", Norm.RMS_OFFSET, Positions.ROPE, True, True, True),
        ("gemma3", "decoder", Norm.RMS_OFFSET, Positions.ROPE, True, True, True),
        ("phi3", "decoder", Norm.RMS, Positions.ROPE, True, True, False),
        ("gpt2", "gpt2", Norm.LAYER, Positions.LEARNED, True, False, True),
        ("neox", "neox", Norm.LAYER, Positions.ROPE, True, False, False),
        ("bloom", "neox", Norm.LAYER, Positions.OTHER, True, False, True),
        ("bert", "bert", Norm.LAYER, Positions.LEARNED, False, False, False),
        ("bert-mlm", "bert", Norm.LAYER, Positions.LEARNED, False, False, True),
        ("mixtral", "decoder", Norm.RMS, Positions.ROPE, True, True, False),
    ],
)
def test_what_decides_the_symmetries(
    family: str, kind: str, norm: Norm, positions: Positions, pre_norm: bool, gated: bool, tied: bool
) -> None:
    layout = recognise(checkpoint(family))
    assert (layout.family, layout.norm, layout.positions) == (kind, norm, positions)
    assert (layout.pre_norm, layout.gated, layout.tied) == (pre_norm, gated, tied)


def test_gpt2_is_turned_and_its_fused_projection_split() -> None:
    stored = checkpoint("gpt2")
    layout = recognise(stored)
    for index, block in enumerate(model("gpt2").transformer.h):
        query, key, value = block.attn.c_attn.weight.T.split(32)
        for role, want in (
            (Role.QUERY, query),
            (Role.KEY, key),
            (Role.VALUE, value),
            (Role.OUT, block.attn.c_proj.weight.T),
            (Role.UP, block.mlp.c_fc.weight.T),
            (Role.DOWN, block.mlp.c_proj.weight.T),
            (Role.VALUE_BIAS, block.attn.c_attn.bias[64:]),
        ):
            assert torch.equal(read(stored, layout.slots[Slot(role, index)]), want), role


def test_phi3_fused_projections_are_split_by_rows() -> None:
    stored = checkpoint("phi3")
    layout = recognise(stored)
    for index, block in enumerate(layers("phi3")):
        query, key, value = block.self_attn.qkv_proj.weight.split((32, 16, 16))
        gate, up = block.mlp.gate_up_proj.weight.chunk(2)
        for role, want in ((Role.QUERY, query), (Role.KEY, key), (Role.VALUE, value), (Role.GATE, gate), (Role.UP, up)):
            assert torch.equal(read(stored, layout.slots[Slot(role, index)]), want), role


@pytest.mark.parametrize(
    ("family", "kv", "per_group"), [("neox", 4, 1), ("bloom", 4, 1), ("falcon", 2, 2), ("falcon-mqa", 1, 4)]
)
def test_grouped_projections_come_out_head_by_head(family: str, kv: int, per_group: int) -> None:
    stored = checkpoint(family)
    layout = recognise(stored)
    assert layout.dims.kv_heads == kv
    for index, block in enumerate(layers(family)):
        fused = dict(block.named_parameters())
        name = next(n for n in fused if n.endswith("query_key_value.weight"))
        groups = fused[name].reshape(kv, per_group + 2, 8, 32)
        for role, want in (
            (Role.QUERY, groups[:, :per_group].reshape(-1, 32)),
            (Role.KEY, groups[:, per_group].reshape(-1, 32)),
            (Role.VALUE, groups[:, per_group + 1].reshape(-1, 32)),
        ):
            assert torch.equal(read(stored, layout.slots[Slot(role, index)]), want), role


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "qwen3_moe"])
def test_packed_and_separate_experts_read_the_same(family: str) -> None:
    stored = checkpoint(family)
    packed = recognise(stored)
    apart = separate_experts(stored, mixtral=family == "mixtral")
    separate = recognise(apart)
    assert packed.dims == separate.dims
    assert packed.dims.experts == 4
    assert set(packed.slots) == set(separate.slots)
    for slot in packed.slots:
        assert torch.equal(read(stored, packed.slots[slot]), read(apart, separate.slots[slot])), slot
    assert Slot(Role.ROUTER, 1) in packed.slots
    if family == "qwen2_moe":
        assert packed.slots[Slot(Role.UP, 1, SHARED_EXPERT)].shape == (40, 32)
        assert Slot(Role.SHARED_GATE, 0) in packed.slots


def separate_experts(stored: MemoryCheckpoint, *, mixtral: bool) -> MemoryCheckpoint:
    """One tensor an expert, under the names that ``save_pretrained`` of transformers 5 writes."""
    block, gate, up, down = (
        ("block_sparse_moe", "w1", "w3", "w2") if mixtral else ("mlp", "gate_proj", "up_proj", "down_proj")
    )
    state: dict[str, torch.Tensor] = {}
    for name in stored.tensors:
        tensor = stored.tensor(name)
        stem = name.replace(".mlp.", f".{block}.").rsplit(".", 1)[0]
        if name.endswith("experts.gate_up_proj"):
            for index, expert in enumerate(tensor):
                state[f"{stem}.{index}.{gate}.weight"], state[f"{stem}.{index}.{up}.weight"] = expert.chunk(2)
        elif name.endswith("experts.down_proj"):
            state |= {f"{stem}.{index}.{down}.weight": expert for index, expert in enumerate(tensor)}
        else:
            state[name.replace(".mlp.", f".{block}.")] = tensor
    return MemoryCheckpoint(state, stored.config)


@pytest.mark.parametrize("wrap", ["base_model.model.", "module.", "policy.actor.transformer."])
@pytest.mark.parametrize("family", ["llama", "gpt2", "bert-mlm"])
def test_a_wrappers_prefix_changes_nothing(family: str, wrap: str) -> None:
    plain = recognise(checkpoint(family))
    wrapped = recognise(checkpoint(family, rename=lambda name: wrap + name))
    assert {s for s in wrapped.slots if s.role is not Role.OTHER} == {
        s for s in plain.slots if s.role is not Role.OTHER
    }
    assert wrapped.dims == plain.dims


def test_a_head_equal_to_the_embedding_is_tied() -> None:
    built = checkpoint("llama")
    state = {name: built.tensor(name) for name in built.tensors}
    state["lm_head.weight"] = state["model.embed_tokens.weight"].clone()
    assert recognise(MemoryCheckpoint(state, built.config)).tied
    state["lm_head.weight"][100, 3] += 1
    assert not recognise(MemoryCheckpoint(state, built.config)).tied


def test_large_tensors_are_not_read() -> None:
    stored = checkpoint("qwen3")
    recognise(stored)
    assert sum(stored.reads.values()) < 0.2 * sum(info.numel for info in stored.tensors.values())


@pytest.mark.parametrize("family", ["gpt2", "phi3", "neox", "qwen3_moe", "llama"])
@pytest.mark.parametrize("raw", [True, False])
def test_blocks_of_a_view_join_to_the_whole(family: str, raw: bool) -> None:
    built = checkpoint(family)
    stored = MemoryCheckpoint({n: built.tensor(n) for n in built.tensors}, built.config, raw=raw)
    for view in recognise(stored).slots.values():
        blocks = [block.clone() for block in read_blocks(stored, view, 7)]
        assert all(block.shape[0] <= 7 and block.is_contiguous() for block in blocks)
        assert torch.equal(torch.cat(blocks), read(stored, view))
        assert torch.equal(read(stored, view), view.cut(stored.tensor(view.tensor)))
