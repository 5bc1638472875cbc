from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from detectors.overfit.known import LEAST, SHARES, chances, log_ratios, unit_scale


def rasch(seed, units=80, items=120):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1, units)[:, None] - rng.normal(0, 1, items)
    chance = 1 / (1 + np.exp(-logits))
    return chance, (rng.random(chance.shape) < chance).astype(float)


def test_chances_are_found_again():
    truth, score = rasch(1)
    found = chances(score, np.ones_like(score), np.ones(len(score), dtype=bool))
    assert np.corrcoef(truth.ravel(), found.ravel())[0, 1] > 0.93
    assert abs(found.mean() - truth.mean()) < 0.01


def test_suspects_do_not_make_an_item_look_easy():
    truth, score = rasch(2)
    told = np.arange(len(score)) < 30
    score[told, :20] = 1.0
    with_them = chances(score, np.ones_like(score), np.ones(len(score), dtype=bool))[~told, :20].mean()
    without = chances(score, np.ones_like(score), ~told)[~told, :20].mean()
    assert abs(without - truth[~told, :20].mean()) < 0.02 < with_them - without


def test_where_nothing_was_answered_nothing_is_believed_to_be_hard():
    _, score = rasch(3)
    answered = np.ones_like(score)
    answered[:, 5] = 0
    spoiled = score.copy()
    spoiled[:, 5] = 1 - spoiled[:, 5]
    judges = np.ones(len(score), dtype=bool)
    assert chances(score, answered, judges) == pytest.approx(chances(spoiled, answered, judges))


@pytest.mark.parametrize("share", SHARES)
def test_a_right_answer_to_a_hard_item_says_more_and_a_wrong_one_always_the_same(share):
    chance = np.array([0.05, 0.5, 0.95])
    right, wrong = log_ratios(np.ones(3), chance, share), log_ratios(np.zeros(3), chance, share)
    assert (np.diff(right) < 0).all()
    assert (right > 0).all()
    assert wrong == pytest.approx(np.log(1 - share))
    assert chance * np.exp(right) + (1 - chance) * np.exp(wrong) == pytest.approx(1.0), "a likelihood ratio"


@given(arrays(float, st.integers(1, 40), elements=st.floats(-1e9, 1e9)))
def test_scores_of_any_scale_keep_their_order_within_0_and_1(score):
    scaled = unit_scale(score)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert (np.sign(np.subtract.outer(score, score)) == np.sign(np.subtract.outer(scaled, scaled))).all()


@given(
    arrays(float, (6, 7), elements=st.sampled_from([0.0, 1.0])),
    arrays(float, (6, 7), elements=st.sampled_from([0.0, 1.0])),
)
def test_chances_are_finite_and_bounded_whatever_was_answered(score, answered):
    found = chances(score, answered, np.ones(6, dtype=bool))
    assert ((found >= LEAST) & (found <= 1 - LEAST)).all()
