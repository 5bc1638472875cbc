"""The parts of aligning on their own: matching rows, mixings, frequency pairs, second opinions on a parameter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.architecture.interface import Slot
from fingerprint.architecture.recognise import recognise
from fingerprint.compare.align import align, load
from fingerprint.compare.align.engine import coverage
from fingerprint.compare.align.flat import flat
from fingerprint.compare.align.matching import cosine, match_rows, nearest, relative, row_cosines
from fingerprint.compare.align.mixing import fit_mixing
from fingerprint.compare.align.recast import recast
from fingerprint.compare.align.residual import polar
from fingerprint.compare.align.units import agreement
from fingerprint.compare.align.vocabulary import gram_agreement
from tests.fingerprint.compare.random_models import attacked, canonical, learned, random_model
from tests.fingerprint.memory import MemoryCheckpoint


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 60), st.integers(0, 1000), st.floats(0.0, 0.2))
def test_rows_are_matched_one_to_one(n: int, seed: int, noise: float) -> None:
    rows = normal(seed, n, 64)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    match = match_rows(rows[order] * 3.0 + noise * normal(seed + 1, n, 64), rows)
    assert torch.equal(order[match.order], torch.arange(n))
    assert float(match.score.min()) > 0.9


def test_rows_that_are_missing_are_said_to_be() -> None:
    rows = normal(0, 10, 32)
    match = match_rows(rows[[7, 2, 4]], rows)
    assert sorted(match.order[match.order >= 0].tolist()) == [0, 1, 2]
    assert match.order[7] == 0
    assert match.order[2] == 1
    assert int((match.order < 0).sum()) == 7


def test_large_matchings_are_projected_and_still_right() -> None:
    rows = normal(0, 2600, 3000)
    order = torch.randperm(2600, generator=torch.Generator().manual_seed(0))
    found, _, back = nearest(rows, rows[order])
    assert torch.equal(order[found], torch.arange(2600))
    assert torch.equal(back, order)


def test_zero_tensors_have_no_direction() -> None:
    zero = torch.zeros(4, 4)
    assert cosine(zero, normal(0, 4, 4)) == 0.0
    assert relative(zero, zero) == 0.0
    assert relative(normal(0, 4, 4), zero) == float("inf")
    assert torch.equal(row_cosines(zero, zero), torch.zeros(4))


def test_polar_finds_a_rotation_through_noise() -> None:
    rows = normal(0, 400, 32)
    rotation = torch.linalg.qr(normal(1, 32, 32))[0]
    assert float((polar((rows @ rotation.T + 0.2 * normal(2, 400, 32)).T @ rows) - rotation).norm()) < 0.5
    assert float((polar((rows @ rotation.T).T @ rows) - rotation).abs().max()) < 1e-5


def test_a_mixing_is_found_through_noise_and_is_not_found_in_learning() -> None:
    value, out = normal(0, 2, 8, 64), normal(1, 2, 128, 8)
    mix = torch.eye(8) + 0.3 * normal(2, 2, 8, 8)
    mixed = mix @ value, out @ torch.linalg.inv(mix)
    exact = fit_mixing((mixed[0], value), (mixed[1], out))
    assert exact.applied
    assert exact.after < 1e-5
    noisy = fit_mixing((mixed[0] + 0.1 * normal(3, 2, 8, 64), value), (mixed[1] + 0.1 * normal(4, 2, 128, 8), out))
    assert noisy.applied
    assert noisy.after == pytest.approx(0.1, rel=0.5)
    push = 0.2 * normal(5, 2, 8, 8)
    learned_alike = fit_mixing((value + push @ value, value), (out + out @ push.mT, out))
    assert not learned_alike.applied
    drawn = fit_mixing((value + 0.2 * normal(6, 2, 8, 64), value), (out + 0.2 * normal(7, 2, 128, 8), out))
    assert not drawn.applied


def test_tensors_scaled_apart_are_not_a_mixing() -> None:
    value, out = normal(0, 2, 8, 64), normal(1, 2, 128, 8)
    assert not fit_mixing((1.03 * value, value), (out / 1.03, out)).applied
    assert fit_mixing((1.5 * value, value), (out / 1.5, out)).applied


def test_agreement_wants_the_same_story_from_both() -> None:
    x = normal(0, 500)
    assert agreement(x, x) == pytest.approx(1.0)
    assert agreement(x, -x) == pytest.approx(-1.0)
    assert abs(agreement(x, normal(1, 500))) < 0.2
    assert agreement(torch.full((9,), 0.03), torch.full((9,), -0.02)) < 0.0
    assert agreement(torch.zeros(5), torch.zeros(5)) == 0.0


def test_row_cosines_do_not_see_rotation_scale_or_shift() -> None:
    rows = normal(0, 300, 24)
    rotation = torch.linalg.qr(normal(1, 24, 24))[0]
    assert gram_agreement(3.0 * rows @ rotation + normal(2, 1, 24), rows) > 0.999
    assert abs(gram_agreement(rows[torch.randperm(300)], rows)) < 0.2


@pytest.mark.parametrize("family", ["gpt2", "mixtral", "qwen3", "bert"])
def test_a_flattened_model_has_its_roles_given_back(family: str) -> None:
    model = canonical(random_model(family, 3))
    plain = flat(model)
    assert all(slot.role.value == "other" for slot in plain.tensors)
    assert sum(x.numel() for x in plain.tensors.values()) == sum(x.numel() for x in model.tensors.values())
    again = recast(plain, model)
    assert again is not None
    assert all(torch.equal(again.tensors[s], x) for s, x in model.tensors.items() if x.ndim == 2)


def test_a_stranger_is_given_no_roles() -> None:
    cast = recast(flat(canonical(random_model("llama", 2))), canonical(random_model("llama", 1)))
    assert cast is None or coverage(align(cast, canonical(random_model("llama", 1))), cast) == 0.0


def test_tokens_out_of_order_without_strings_are_matched_by_value() -> None:
    victim = random_model("llama", 1)
    copy, _ = attacked(victim, "permute-vocabulary", "permute-units")
    found = align(canonical(copy), canonical(victim))
    assert "permuted:vocabulary" in found.transforms
    assert found.witness.residuals[Slot("embed")] == 0.0  # type: ignore[arg-type]


def test_token_strings_are_a_claim_and_values_decide() -> None:
    """A tokenizer whose strings were shuffled, over rows that were not, changes nothing."""
    victim = random_model("llama", 1)
    tokens = [f"t{i}" for i in range(320)]
    reference, candidate = (
        MemoryCheckpoint(victim.state, victim.config, tokens=t) for t in (tokens, list(reversed(tokens)))
    )
    found = align(load(candidate, recognise(candidate)), load(reference, recognise(reference)))
    assert found.transforms == ()


def test_models_of_different_width_share_nothing() -> None:
    small = canonical(random_model("llama", 1))
    wide = random_model("llama", 1)
    state = {n: x[:, :32] if x.ndim == 2 and x.shape[1] == 48 else x for n, x in wide.state.items()}
    narrow = MemoryCheckpoint(state, {**wide.config, "hidden_size": 32})
    found = align(load(narrow, recognise(narrow)), small)
    assert Slot("embed") not in found.matched  # type: ignore[comparison-overlap]


def test_a_change_too_large_to_be_honest_is_not_matched() -> None:
    parent = random_model("llama", 1)
    found = align(canonical(learned(parent, 20.0)), canonical(parent))
    assert found.transforms == ()
    assert not found.matched
