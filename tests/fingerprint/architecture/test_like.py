"""A renaming is undone by the model it was made from, through permutations and a rotation of the stream."""

from __future__ import annotations

import hashlib

import pytest
import torch

from fingerprint.architecture import read, recognise, recognise_like
from fingerprint.architecture.interface import Role, Slot
from fingerprint.architecture.lines import line_profiles
from tests.fingerprint.memory import MemoryCheckpoint

from .planted import CONFIG, HIDDEN, LAYERS, planted
from .test_recognise import assert_partition


def scrambled(name: str) -> str:
    return "t" + hashlib.sha256(name.encode()).hexdigest()[:12]


def disguise(state: dict[str, torch.Tensor], *, rotate: bool, seed: int = 3) -> dict[str, torch.Tensor]:
    """Fold the gains and turn the stream if asked to; permute the units; add 1% noise. Names stay."""
    g = torch.Generator().manual_seed(seed)
    out = dict(state)
    turn = torch.linalg.qr(torch.randn(HIDDEN, HIDDEN, generator=g))[0] if rotate else torch.eye(HIDDEN)
    for layer in range(LAYERS):
        lead = f"model.layers.{layer}."
        order = torch.randperm(len(out[f"{lead}mlp.up_proj.weight"]), generator=g)
        for stem, gain in (("self_attn.q", 0), ("self_attn.k", 0), ("self_attn.v", 0), ("mlp.gate", 1), ("mlp.up", 1)):
            name = f"{lead}{stem}_proj.weight"
            norm = state[lead + ("input_layernorm.weight", "post_attention_layernorm.weight")[gain]]
            folded = out[name] * norm if rotate else out[name]
            out[name] = (folded[order] if "mlp" in name else folded) @ turn
        out[f"{lead}mlp.down_proj.weight"] = turn.T @ out[f"{lead}mlp.down_proj.weight"][:, order]
        out[f"{lead}self_attn.o_proj.weight"] = turn.T @ out[f"{lead}self_attn.o_proj.weight"]
    out["model.embed_tokens.weight"] = out["model.embed_tokens.weight"] @ turn
    out["lm_head.weight"] = (out["lm_head.weight"] * (state["model.norm.weight"] if rotate else 1)) @ turn
    for name in out:
        if rotate and "norm" in name:
            out[name] = torch.ones(HIDDEN)
        out[name] = out[name] + 0.01 * out[name].std(unbiased=False) * torch.randn(out[name].shape, generator=g)
    return out


@pytest.mark.parametrize("rotate", [False, True])
def test_every_matrix_finds_its_place(rotate: bool) -> None:
    state = planted()
    reference = MemoryCheckpoint(state, CONFIG)
    copy = disguise(state, rotate=rotate)
    renamed = {scrambled(name): tensor for name, tensor in copy.items()}
    stored = MemoryCheckpoint(dict(sorted(renamed.items())))
    layout = recognise_like(stored, reference, recognise(reference))
    assert layout is not None
    assert layout.source == "reference"
    for slot, view in recognise(MemoryCheckpoint(copy, CONFIG)).slots.items():
        if len(view.shape) == 2:
            assert torch.equal(read(stored, layout.slots[slot]), copy[view.tensor]), slot
    assert_partition(stored, layout)


def test_what_has_no_partner_is_kept_under_its_own_name() -> None:
    state = planted()
    reference = MemoryCheckpoint(state, CONFIG)
    stored = MemoryCheckpoint({scrambled(n): t for n, t in state.items()} | {"extra": torch.randn(7, 5)})
    layout = recognise_like(stored, reference, recognise(reference))
    assert layout is not None
    assert Slot(Role.OTHER, name="extra") in layout.slots


def test_without_an_embedding_in_common_there_is_no_start() -> None:
    reference = MemoryCheckpoint(planted(), CONFIG)
    assert recognise_like(MemoryCheckpoint({"conv": torch.randn(4, 3, 3, 3)}), reference, recognise(reference)) is None


def test_profiles_do_not_depend_on_order_sign_or_scale_of_lines() -> None:
    x, probes = torch.randn(70, 32), torch.randn(32, 8)
    order, scale = torch.randperm(70), torch.randn(70, 1) + 3
    stored = MemoryCheckpoint(
        {"rows": x, "mixed": -x[order] * scale, "columns": x.T.contiguous(), "packed": x.reshape(2, 35, 32)}
    )
    want = line_profiles(stored, "rows", probes)[0]
    for name in ("mixed", "columns", "packed"):
        torch.testing.assert_close(line_profiles(stored, name, probes)[0], want)
