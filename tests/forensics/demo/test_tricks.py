"""The demo's cheats must be what they claim: same function, or the stated distance, or the story it tells is false."""

from __future__ import annotations

import pytest
import torch

from forensics.demo import decoder, tricks

IDS = torch.arange(96).view(2, 48) * 11


@pytest.fixture(scope="module")
def weights() -> decoder.Weights:
    model = decoder.build(seed=5)
    draw = torch.Generator().manual_seed(6)
    out = {}
    for name, tensor in model.state_dict().items():  # norms of ones and tiny heads would hide mistakes
        jitter = torch.rand(tensor.shape, generator=draw) + 0.5
        out[name] = tensor.detach() * jitter if tensor.dim() == 1 else tensor.detach() * 3
    return out


@torch.no_grad()
def logits(weights: decoder.Weights) -> torch.Tensor:
    return decoder.build(weights)(input_ids=IDS).logits


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize(
    "change",
    [
        lambda w: tricks.permuted(w, seed=1),
        lambda w: tricks.rotated(w, seed=2),
        lambda w: tricks.permuted(tricks.rotated(w, seed=3), seed=4),
    ],
    ids=["permuted", "rotated", "both"],
)
def test_symmetries_keep_the_function_and_move_the_weights(weights, change):
    before = {name: tensor.clone() for name, tensor in weights.items()}
    changed = change(weights)
    assert relative(logits(changed), logits(weights)) < 1e-4
    gate = "model.layers.1.mlp.gate_proj.weight"
    assert relative(changed[gate], weights[gate]) > 0.5
    assert all(torch.equal(before[name], weights[name]) for name in weights)  # the argument is left alone


def test_noise_has_the_stated_strength(weights):
    changed = tricks.noisy(weights, 0.01, seed=1)
    for name, tensor in weights.items():
        expected = 0.01 if tensor.dim() == 2 else 0.0
        assert relative(changed[name], tensor) == pytest.approx(expected, rel=0.03)


def test_int8_leaves_at_most_255_levels_a_row(weights):
    changed = tricks.quantised(weights)["model.layers.0.mlp.up_proj.weight"]
    assert max(len(torch.unique(row)) for row in changed) <= 255
    assert 0.001 < relative(changed, weights["model.layers.0.mlp.up_proj.weight"]) < 0.02


def test_other_names_lose_no_tensor(weights):
    renamed = tricks.renamed(weights)
    assert len(renamed) == len(weights)
    assert not set(renamed) & set(weights)


def test_blends_are_weighted_sums(weights):
    other = tricks.noisy(weights, 0.5, seed=9)
    blend = tricks.blended([(0.9, weights), (0.1, other)])
    name = "lm_head.weight"
    torch.testing.assert_close(blend[name], 0.9 * weights[name] + 0.1 * other[name])
