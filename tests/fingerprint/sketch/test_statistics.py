"""Statistics see scale, zeros and tails; the lattice test finds what quantisers leave and accuses nobody else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fingerprint.fingerprint import Lattice
from fingerprint.sketch import statistics


def _weights(seed: int = 0, shape: tuple[int, int] = (32, 1024)) -> torch.Tensor:
    return 0.02 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _quantised(w: torch.Tensor, bits: int, group: int | None) -> torch.Tensor:
    grouped = w.reshape(-1, group or w.shape[1])
    step = grouped.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    return (torch.round(grouped / step) * step).reshape(w.shape)


def _lattice(w: torch.Tensor) -> Lattice:
    return statistics.lattice(w.to(torch.float32).numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(32, 64), (32, 128), (32, 1024), (64, 4096)])
@pytest.mark.parametrize("seed", [0, 1])
def test_trained_looking_weights_have_no_lattice(dtype: torch.dtype, shape: tuple[int, int], seed: int) -> None:
    w = _weights(seed, shape).to(dtype)
    assert _lattice(w).bits == 0
    heavy = (_weights(seed, shape) ** 3).to(dtype)
    assert _lattice(heavy).bits == 0
    pruned = torch.where(w.abs() < w.abs().float().quantile(0.3), torch.zeros_like(w), w)
    assert _lattice(pruned).bits == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("bits", "group", "scheme"),
    [
        (8, None, "int8-row"),
        (8, 128, "int8-group128"),
        (8, 32, "int8-group32"),
        (4, None, "int4-row"),
        (4, 128, "int4-group128"),
        (4, 64, "int4-group64"),
        (4, 32, "int4-group32"),
    ],
)
def test_quantise_dequantise_is_found(dtype: torch.dtype, bits: int, group: int | None, scheme: str) -> None:
    found = _lattice(_quantised(_weights(), bits, group).to(dtype))
    assert found.scheme == scheme
    assert found.bits == bits


def test_levels_without_even_spacing() -> None:
    levels = torch.linspace(-1, 1, 16) ** 3
    w = _weights().reshape(-1, 64)
    scaled = w / w.abs().amax(dim=1, keepdim=True)
    nearest = (scaled[..., None] - levels).abs().argmin(-1)
    found = _lattice((levels[nearest] * w.abs().amax(dim=1, keepdim=True)).reshape(32, 1024))
    assert found.bits == 4
    assert found.scheme.startswith("nf4-group")


def test_one_scale_for_the_whole_tensor() -> None:
    w = _weights()
    step = w.abs().max() / 127
    found = _lattice((torch.round(w / step) * step).to(torch.bfloat16))
    assert found.bits == 8
    assert found.scheme.endswith("tensor")


def test_moments() -> None:
    w = _weights(0, (64, 512)).numpy()
    w[:, ::4] = 0
    found = statistics.summarise(np.linalg.norm(w, axis=1).astype(np.float32), w, 512)
    assert found.norm == pytest.approx(float(np.linalg.norm(w)), rel=1e-5)
    assert found.zeros == pytest.approx(0.25, abs=1e-6)
    assert found.peak == pytest.approx(float(np.abs(w).max()))
    assert found.kurtosis == pytest.approx(1.0, abs=0.15)
    assert np.all(np.diff(found.rows) >= 0)


@pytest.mark.parametrize("values", [np.zeros((0, 0)), np.ones((2, 3)), np.full((1, 1), 1e38), np.zeros((3, 4))])
def test_odd_matrices_give_finite_numbers(values: np.ndarray) -> None:
    w = values.astype(np.float32)
    found = statistics.summarise(np.linalg.norm(w.astype(float), axis=1).astype(np.float32), w, w.shape[1])
    assert np.isfinite([found.norm, found.mean, found.kurtosis, found.peak, found.zeros]).all()
    statistics.lattice(w)
