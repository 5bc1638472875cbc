"""Linear combinations of known models come back with their weights; what is no combination does not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.regress import mixture, project

SLOTS = [Slot(Role.QUERY, 0), Slot(Role.DOWN, 1)]


def model(seed: int) -> dict[Slot, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {s: torch.randn(24, 32, generator=g) for s in SLOTS}


def blend(models: list[dict[Slot, torch.Tensor]], weights: list[float]) -> dict[Slot, torch.Tensor]:
    return {s: sum(w * m[s] for w, m in zip(weights, models, strict=True)) for s in SLOTS}  # type: ignore[misc]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=4))
def test_soups_give_their_weights_back(raw: list[float]) -> None:
    weights = [w / sum(raw) for w in raw]
    parts = [model(i) for i in range(len(weights))]
    found = mixture(blend(parts, weights), parts, SLOTS)
    assert found.weights == pytest.approx(weights, abs=1e-3)
    assert found.residual < 0.02


def test_an_independent_model_is_no_soup() -> None:
    found = mixture(model(9), [model(0), model(1), model(2)], SLOTS)
    assert found.residual > 0.7


def test_projection_takes_out_what_it_names_and_nothing_else() -> None:
    g = torch.Generator().manual_seed(5)
    r, b, e = (torch.randn(40, 60, generator=g) for _ in range(3))
    fit = project(0.01 * r + 0.2 * b + 0.001 * e, [r, b])
    assert fit.coefficients == pytest.approx((0.01, 0.2), abs=1e-4)
    assert float(fit.residual.norm()) == pytest.approx(0.001 * float(e.norm()), rel=0.01)


def test_projection_on_nothing_leaves_the_delta() -> None:
    delta = torch.ones(3, 3)
    assert project(delta, [torch.zeros(3, 3)]).coefficients == (0.0,)
    assert torch.equal(project(delta, []).residual.float(), delta)
    assert project(torch.zeros(3, 3), [delta]).explained == 0.0
