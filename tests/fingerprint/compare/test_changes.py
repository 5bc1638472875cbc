"""Each named change is recognised by reproducing it, and an honest change gets no name."""

from __future__ import annotations

import pytest
import torch

from fingerprint.compare import changes


def weights(rows: int = 96, columns: int = 256, seed: int = 0) -> torch.Tensor:
    return (torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 0.02).bfloat16().float()


def rowwise(w: torch.Tensor, top: int) -> torch.Tensor:
    scale = w.abs().amax(1, keepdim=True) / top
    return (w / scale).round() * scale


def grouped(w: torch.Tensor, top: int, group: int) -> torch.Tensor:
    return rowwise(w.reshape(-1, group), top).reshape(w.shape)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("int8", rowwise(weights(), 127)),
        ("int4", grouped(weights(), 7, 32)),
        ("int4", grouped(weights(), 7, 128)),
        ("fp8", weights().to(torch.float8_e4m3fn).float()),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantise_dequantise_is_reproduced(name: str, made: torch.Tensor, dtype: torch.dtype) -> None:
    assert changes.quantised(made.to(dtype).float(), weights(), dtype=dtype) == name


def test_noise_and_training_are_no_lattice() -> None:
    w = weights()
    noisy = w + 0.01 * w.std() * torch.randn(w.shape, generator=torch.Generator().manual_seed(1))
    assert changes.quantised(noisy, w, dtype=torch.bfloat16) is None
    assert changes.quantised(w, w, dtype=torch.bfloat16) is None


@pytest.mark.parametrize("fraction", [0.05, 0.3])
def test_pruning_is_zeros_at_the_smallest(fraction: float) -> None:
    w = weights()
    cut = w.abs().flatten().quantile(fraction)
    found = changes.pruned(torch.where(w.abs() < cut, torch.zeros_like(w), w), w)
    assert found == pytest.approx(fraction, rel=0.1)


def test_zeros_anywhere_are_not_pruning() -> None:
    w = weights()
    mask = torch.rand(w.shape, generator=torch.Generator().manual_seed(2)) < 0.1
    assert changes.pruned(torch.where(mask, torch.zeros_like(w), w), w) is None


def test_a_cast_is_told_entry_by_entry() -> None:
    w = torch.randn(32, 32, generator=torch.Generator().manual_seed(3))
    assert changes.cast(w.half().float(), w) == "f16"
    assert changes.cast(w.bfloat16().float(), w) == "bf16"
    assert changes.cast(w.half().bfloat16().float(), w) in ("f16", "bf16")
    assert changes.cast(w * 1.0001, w) is None


def test_numerical_rank_counts_what_an_adapter_adds() -> None:
    g = torch.Generator().manual_seed(4)
    adapter = torch.randn(96, 6, generator=g) @ torch.randn(6, 256, generator=g)
    assert changes.numerical_rank(adapter) <= 6
    assert changes.numerical_rank(torch.randn(96, 256, generator=g)) > 48
    assert changes.numerical_rank(torch.zeros(8, 8)) == 0


def step(toward: float, seed: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reference, its base, and the reference moved along its own change, as bf16 stores them."""
    base, reference = weights(seed=seed), weights(seed=seed)
    reference = (base + 0.1 * weights(seed=seed + 1)).bfloat16().float()
    moved = (reference.double() + toward * (reference.double() - base.double())).bfloat16().float()
    return reference, base, moved


@pytest.mark.parametrize("toward", [-0.05, -0.3, 0.1])
def test_a_step_along_the_base_is_seen_by_its_rounding(toward: float) -> None:
    reference, base, moved = step(toward)
    assert changes.step_between(moved, reference, base, toward * 0.98, torch.bfloat16)


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_a_light_update_is_no_step_however_few_values_it_changes(share: float) -> None:
    reference, base, moved = step(-0.05)
    where = torch.rand(reference.shape, generator=torch.Generator().manual_seed(7)) < share
    flipped = torch.where(where, reference * (1 + 2**-7), reference).bfloat16().float()
    assert not changes.step_between(flipped, reference, base, -0.01, torch.bfloat16)
    trained = torch.where(where, moved * (1 + 2**-7), moved).bfloat16().float()
    assert changes.step_between(trained, reference, base, -0.05, torch.bfloat16) is (share < 0.1)
