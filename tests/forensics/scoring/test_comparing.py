"""One pair in one environment: numbers by hand, and the matrix forms against them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.scoring.comparing import Pairwise
from forensics.scoring.field import Field, Items, bounded_variance
from forensics.scoring.policy import EnvironmentRule
from forensics.scoring.spending import quantiles
from tests.forensics.scoring.fields import items, means, submissions

ALL = np.arange(6)


def pairwise_of(field: Field, alpha: float = 0.05, overlap: float = 0.8) -> Pairwise:
    alphas = np.linspace(alpha, alpha / 10, len(field.submissions))
    return Pairwise(field, alphas.tolist(), worse_alpha=0.05, min_overlap=overlap)


def by_hand(x: np.ndarray, y: np.ndarray, z: float, worse: float, overlap: float) -> str:
    common = ~np.isnan(x) & ~np.isnan(y)
    n, answered = int(common.sum()), int((~np.isnan(y)).sum())
    if not answered:
        return "not compared"
    if not n or n < overlap * answered:
        return "missing"
    d = x[common] - y[common]
    error = math.sqrt(float((d**2).sum())) / n
    if d.mean() > 0 and d.mean() >= z * error:
        return "better"
    return "worse" if d.mean() < 0 and -d.mean() >= worse * error else "same"


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([1.0, 1e6]))
def test_the_matrix_form_says_what_the_formula_says(seed, missing, scale):
    rng = np.random.default_rng(seed)
    skill = rng.uniform(0.2, 0.8, size=(6, 1))
    scores = [scale * ((rng.random((6, 25)) < skill) + 5.0) for _ in range(2)]
    for matrix in scores:
        matrix[rng.random(matrix.shape) < missing] = np.nan
    pairs = pairwise_of(items(*scores))
    alphas = np.linspace(0.05, 0.005, 6).tolist()
    z = quantiles(alphas, environments=2, symmetric=True)
    worse = float(quantiles([0.05], environments=1, symmetric=False)[0])
    better, fallen = pairs.better(ALL, ALL), pairs.worse(ALL, ALL)
    for later in range(6):
        for earlier in range(later):
            expected = [by_hand(m[later], m[earlier], z[later], worse, 0.8) for m in scores]
            assert [d.result for d in pairs.details(later, earlier)] == expected
            assert better[later, earlier] == ("better" in expected)
            assert fallen[later, earlier] == ("worse" in expected or "missing" in expected)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_shortcuts_over_means_change_nothing(seed):
    rng = np.random.default_rng(seed)
    mean = np.round(rng.random((6, 3)), 2)
    mean[rng.random(mean.shape) < 0.1] = np.nan
    pairs = pairwise_of(means(mean, rng.choice([0.0, 0.001, 0.05, 0.2, np.nan], size=mean.shape)))
    better, fallen = pairs.better(ALL, ALL), pairs.worse(ALL, ALL)
    for met in (ALL[:1], ALL[2:4], ALL):
        assert pairs.beat_all(ALL, met).tolist() == ALL[better[:, met].all(axis=1)].tolist()
    for later in range(6):
        for earlier in range(later):
            results = {d.result for d in pairs.details(later, earlier)}
            assert better[later, earlier] == ("better" in results)
            assert fallen[later, earlier] == bool(results & {"worse", "missing"})


def test_numbers_by_hand():
    x, y = np.array([1.0, 1, 1, 0]), np.array([0.0, 1, 0, 0])
    (found,) = pairwise_of(items([y, x])).details(1, 0)
    error = math.sqrt(2) / 4
    assert (found.later, found.earlier, found.difference, found.items) == (0.75, 0.25, 0.5, 4)
    assert found.margin == pytest.approx(quantiles([0.005], environments=1, symmetric=True)[0] * error)
    assert found.tolerance == pytest.approx(1.6449 * error, rel=1e-4)
    assert found.result == "same"


def test_lower_is_better_is_turned_back_for_people():
    rule = EnvironmentRule(lower_is_better=True)
    tokens = np.vstack([np.full(50, 900.0) + np.arange(50) % 7, np.full(50, 700.0) + np.arange(50) % 5])
    field = Field(submissions(2), (Items("TOKENS", -tokens, rule),))
    (found,) = pairwise_of(field).details(1, 0)
    assert found.result == "better"
    assert (found.later, found.earlier) == (tokens[1].mean(), tokens[0].mean())
    assert found.difference == pytest.approx(tokens[1].mean() - tokens[0].mean())


def test_differences_below_the_declared_effect_are_none():
    scores = np.vstack([np.zeros(100), np.full(100, 0.01)])
    field = Field(submissions(2), (Items("E", scores, EnvironmentRule()),))
    assert pairwise_of(field).details(1, 0)[0].result == "better"
    ruled = Field(submissions(2), (Items("E", scores, EnvironmentRule(min_effect=0.02)),))
    assert pairwise_of(ruled).details(1, 0)[0].result == "same"
    turned = Field(submissions(2), (Items("E", -scores, EnvironmentRule(min_effect=0.02)),))
    assert not pairwise_of(turned).worse(np.array([1]), np.array([0])).any()


def test_an_ignored_environment_decides_nothing():
    field = items(np.vstack([np.zeros(50), np.ones(50)]))
    (environment,) = field.environments
    ignored = Field(field.submissions, (replace(environment, rule=EnvironmentRule(ignore=True)),))
    assert pairwise_of(ignored).details(1, 0) == ()
    assert not pairwise_of(ignored).better(np.array([1]), np.array([0])).any()


def test_one_sided_gaps():
    """Not answering what the earlier one did counts against the later; what only the later did counts for nobody."""
    base = np.tile([0.0, 1.0], 25)
    skipping, extra = base.copy(), base.copy()
    skipping[::4] = np.nan
    pairs = pairwise_of(items([base, skipping]))
    assert pairs.details(1, 0)[0].result == "missing"
    assert pairs.worse(np.array([1]), np.array([0])).all()
    extra[::4] = np.nan
    assert pairwise_of(items([extra, base])).details(1, 0)[0].result == "same"
    nothing = np.full(50, np.nan)
    assert pairwise_of(items([nothing, base])).details(1, 0)[0].result == "not compared"


def test_a_mean_without_an_error_proves_nothing_and_excuses_nothing():
    pairs = pairwise_of(means(np.array([[0.5], [0.9], [0.4]]), np.nan))
    assert [pairs.details(i, 0)[0].result for i in (1, 2)] == ["same", "worse"]


def test_errors_of_bare_means_are_bounds():
    """Bhatia and Davis: no scores in [0, 1] with that mean vary more."""
    rng = np.random.default_rng(2)
    for p in (0.02, 0.3, 0.9):
        scores = (rng.random((2000, 400)) < p).astype(float)
        bound = bounded_variance(scores.mean(axis=1), np.full(2000, 400.0), 0.0, 1.0)
        assert bound.mean() > scores.mean(axis=1).var() * 0.95
    assert bounded_variance(np.array([0.0]), np.array([10.0]), 0.0, 1.0)[0] > 0
