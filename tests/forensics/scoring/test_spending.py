"""Alpha: never more than the set one for a lineage, whatever comes when."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forensics.scoring.spending import RADEMACHER, quantiles, spend

GROUPS = st.lists(st.lists(st.sampled_from("abcdef"), max_size=3), max_size=40)


@given(GROUPS)
def test_a_lineage_spends_less_than_alpha_as_long_as_it_is_one(groups):
    attempts = spend(groups, 0.01)
    numbers = [attempt.number for attempt in attempts]
    assert all(attempt.alpha <= 0.005 for attempt in attempts if attempt.number)
    assert numbers[:1] in ([], [0])
    assert all(number >= 1 for number in numbers[1:])


@given(st.integers(1, 300))
def test_the_first_and_its_copies_spend_less_than_alpha(copies):
    attempts = spend([["champion"]] * (copies + 1), 0.01)
    assert [attempt.number for attempt in attempts] == list(range(copies + 1))
    assert math.fsum(attempt.alpha for attempt in attempts[1:]) < 0.01
    assert len({attempt.lineage for attempt in attempts}) == 1


@given(GROUPS, st.integers(0, 40))
def test_what_comes_later_takes_nothing_from_earlier_ones(groups, kept):
    short, whole = spend(groups[:kept], 0.01), spend(groups, 0.01)
    assert [a.alpha for a in whole[:kept]] == [a.alpha for a in short]


def test_joining_two_lineages_counts_both():
    attempts = spend([["x"], ["a"], ["a"], ["b"], ["b"], ["a", "b"]], 0.01)
    assert [attempt.number for attempt in attempts] == [0, 1, 2, 1, 2, 5]


def test_strangers_share_nothing():
    assert [a.number for a in spend([["a"], ["b"], ["c"], []], 0.01)] == [0, 1, 1, 1]


def test_the_bound_holds_exactly_for_a_model_and_its_copy():
    """All 2^n outcomes of n paired differences that are symmetric about zero, for magnitudes of several kinds."""
    n = 14
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    rng = np.random.default_rng(4)
    for sizes in (np.ones(n), rng.exponential(size=n), np.r_[10.0, np.ones(n - 1)], 0.5 ** np.arange(n)):
        statistic = signs @ sizes / math.sqrt(float((sizes**2).sum()))
        for alpha in (0.2, 0.05, 0.01, 1e-3, 1e-4):
            z = quantiles([alpha], environments=1, symmetric=True)[0]
            assert (statistic >= z).mean() <= alpha


def test_the_constant_is_the_published_one():
    assert round(RADEMACHER, 3) == 3.179  # 1 / (4 P(Z >= sqrt 2)); the abstract's 3.178 is cut, not rounded
    assert np.all(np.diff(quantiles([0.1, 0.01, 1e-10, 1e-100], environments=6, symmetric=True)) > 0)
