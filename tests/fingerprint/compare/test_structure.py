"""A drawn change shows no sign coherence, whatever its magnitudes; a sum of outer products does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.compare.structure import coherence, gain

ROWS, COLUMNS = 96, 160


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(kind: str, g: torch.Generator) -> torch.Tensor:
    noise = torch.randn(ROWS, COLUMNS, generator=g)
    if kind == "rows":
        return noise * torch.exp(torch.randn(ROWS, 1, generator=g))
    if kind == "rows and columns":
        profile = torch.exp(torch.randn(ROWS, 1, generator=g)) * torch.exp(torch.randn(1, COLUMNS, generator=g))
        return noise * profile
    if kind == "sparse":
        return noise * (torch.rand(ROWS, COLUMNS, generator=g) < 0.05)
    if kind == "heavy tails":
        return noise**3
    if kind == "lattice":
        w = torch.randn(ROWS, COLUMNS, generator=g)
        step = w.abs().amax(1, keepdim=True) / 7
        return (w / step).round() * step - w
    return noise


@pytest.mark.parametrize("kind", ["plain", "rows", "rows and columns", "sparse", "heavy tails", "lattice"])
def test_drawn_changes_are_at_their_own_null(kind: str) -> None:
    z = [coherence(drawn(kind, generator(seed))).z for seed in range(24)]
    mean = sum(z) / len(z)
    assert abs(mean) < 1.0
    assert max(map(abs, z)) < 6.0


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_a_sum_of_outer_products_is_coherent_even_under_noise(share: float) -> None:
    g = generator(1)
    learned = sum(torch.randn(ROWS, 1, generator=g) @ torch.randn(1, COLUMNS, generator=g) / (k + 1) for k in range(12))
    delta = share * learned / learned.std() + torch.randn(ROWS, COLUMNS, generator=g) * (1 - share)
    assert coherence(delta).z > 10.0


def test_random_signs_take_the_coherence_away() -> None:
    g = generator(2)
    learned = torch.randn(ROWS, 3, generator=g) @ torch.randn(3, COLUMNS, generator=g)
    flipped = learned * (torch.randint(0, 2, learned.shape, generator=g) * 2 - 1)
    assert coherence(learned).z > 100.0
    assert abs(coherence(flipped).z) < 5.0


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(0, 1000))
def test_scale_and_orientation_do_not_matter(scale: float, seed: int) -> None:
    delta = torch.randn(24, 40, generator=generator(seed)).double()
    first, second, third = coherence(delta), coherence(delta * scale), coherence(delta.T)
    assert second.z == pytest.approx(first.z, rel=1e-6, abs=1e-6)
    assert third.z == pytest.approx(first.z, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "delta", [torch.zeros(8, 8), torch.ones(1, 9), torch.zeros(0, 4), torch.full((4, 4), torch.nan)]
)
def test_nothing_to_judge_gives_nothing(delta: torch.Tensor) -> None:
    assert coherence(delta).z == 0.0


def test_gain_sees_who_knew_the_inputs() -> None:
    g = generator(3)
    inputs = torch.randn(2000, COLUMNS, generator=g) * torch.linspace(3, 0.1, COLUMNS)
    inputs = inputs @ torch.linalg.qr(torch.randn(COLUMNS, COLUMNS, generator=g)).Q
    covariance = inputs.T @ inputs / len(inputs)
    trained = torch.randn(ROWS, 200, generator=g) @ inputs[:200]
    adapter = torch.randn(ROWS, 4, generator=g) @ torch.randn(4, COLUMNS, generator=g)
    assert gain(trained, covariance).z > 50.0
    assert abs(gain(torch.randn(ROWS, COLUMNS, generator=g), covariance).z) < 5.0
    assert gain(adapter, covariance).value < 0.6 * gain(trained, covariance).value
