from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from detectors.overfit import permutation
from detectors.overfit.permutation import LIFTS, stratum


def run(score, tested, seed=0):
    return permutation.test([stratum(np.array(score, float), np.array(tested, bool))], np.random.default_rng(seed))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_right_and_wrong_answers_give_fishers_exact_test(rows):
    score, tested = zip(*rows, strict=True)
    made = stratum(np.array(score, float), np.array(tested, bool))
    if made is None:
        assert all(tested) or not any(tested)
        return
    table = [[sum(s for s, t in rows if t), sum(not s for s, t in rows if t)], [0, 0]]
    table[1] = [sum(s for s, t in rows if not t), sum(not s for s, t in rows if not t)]
    found = permutation.test([made], np.random.default_rng(0))
    assert found.p == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue)
    assert found.draws == 0


def test_strata_are_added_up_exactly_as_by_listing_every_lot():
    one, two = ([1, 1, 0, 1, 0], [1, 1, 0, 0, 0]), ([0, 1, 1, 0], [0, 1, 1, 0])
    strata = [stratum(np.array(s, float), np.array(t, bool)) for s, t in (one, two)]
    found = permutation.test(strata, np.random.default_rng(0))
    seen = 2 + 2
    lots = [
        sum(one[0][i] for i in a) + sum(two[0][i] for i in b)
        for a in itertools.combinations(range(5), 2)
        for b in itertools.combinations(range(4), 2)
    ]
    assert len(lots) == comb(5, 2) * comb(4, 2)
    assert found.p == pytest.approx(sum(lot >= seen for lot in lots) / len(lots))


@pytest.mark.parametrize("binary", [True, False])
def test_e_values_have_mean_one_over_all_lots(binary):
    score = np.array([1, 0, 0, 1, 1, 0.0]) if binary else np.array([0.1, 0.9, 0.4, 0.7, 0.2, 0.3])
    values = []
    for arm in itertools.combinations(range(6), 3):
        found = run(score, np.isin(np.arange(6), arm))
        values.append(np.exp(found.log_e))
    mean = np.mean(values, axis=0)
    assert mean.shape == (len(LIFTS),)
    assert mean == pytest.approx(np.ones(len(LIFTS)), abs=1e-9 if binary else 0.03)


def test_sampled_p_values_are_near_the_listed_ones():
    score = np.array([0.1, 0.9, 0.4, 0.7, 0.2, 0.35, 0.8, 0.6])
    tested = np.array([0, 1, 0, 1, 0, 0, 1, 1], bool)
    lots = [score[list(arm)].sum() for arm in itertools.combinations(range(8), 4)]
    exact = np.mean(np.array(lots) >= score[tested].sum() - 1e-12)
    found = run(score, tested)
    assert found.p == pytest.approx(exact, rel=0.4)
    assert found.draws >= permutation.FIRST


def test_sampled_p_values_are_uniform_under_the_null():
    rng = np.random.default_rng(5)
    strata = [[stratum(rng.random(40), rng.permutation(40) < 20)] for _ in range(400)]
    p = np.array([found.p for found in permutation.test_all(strata, rng)])
    assert stats.kstest(p, "uniform").pvalue > 0.001
    assert np.mean(p <= 0.05) < 0.09


def test_a_large_lift_gives_a_small_p_and_a_large_e():
    found = run(np.r_[np.linspace(0.5, 1, 60), np.linspace(0, 0.5, 60)], np.arange(120) < 60)
    assert found.p == pytest.approx(1 / (permutation.DRAWS + 1))
    assert found.log_e.max() > 5


@settings(max_examples=25)
@given(st.floats(-100, 100), st.floats(0.01, 1000))
def test_scale_and_origin_of_scores_do_not_matter(origin, scale):
    rng = np.random.default_rng(1)
    score, tested = rng.normal(size=30).round(2), np.arange(30) < 12
    assert run(origin + scale * score, tested).p == pytest.approx(run(score, tested).p, rel=0.5)


def test_an_empty_arm_says_nothing():
    assert stratum(np.array([1.0, 0.0]), np.array([True, True])) is None
    assert permutation.test([], np.random.default_rng(0)) is None


def test_scores_that_are_all_equal_accuse_nobody():
    assert run(np.ones(20), np.arange(20) < 10).p == 1.0
    assert run(np.full(20, 0.3), np.arange(20) < 10).p == 1.0
