"""Weights add up, nothing pays a penalised model more, and what is withheld goes where the policy says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.scoring.field import Field, Items
from forensics.scoring.policy import RULES, WITHHELD, EnvironmentRule
from forensics.scoring.weights import merits, pay
from tests.forensics.scoring.fields import items, policy, submissions

MULTIPLIERS = st.sampled_from([0.0, 1e-18, 0.25, 0.999, 1.0])
CASES = st.lists(st.tuples(MULTIPLIERS, st.floats(0, 1)), max_size=12)


@given(CASES, st.sampled_from(RULES), st.sampled_from(WITHHELD), st.integers(1, 12))
def test_weights_and_burn_add_up_to_one(cases, rule, withheld, places):
    multipliers, merit = [m for m, _ in cases], np.array([s for _, s in cases])
    found = pay(range(len(cases)), merit, multipliers, policy(rule=rule, withheld=withheld, places=places))
    assert math.isclose(math.fsum(found.paid.values()) + found.burned, 1.0, abs_tol=1e-12)
    assert len(found.paid) <= places
    for place, weight in found.paid.items():
        assert weight >= 0
        if multipliers[place] == 0:
            assert weight == 0
        if multipliers[place] < 1:
            assert weight == found.earned[place] * multipliers[place]


def test_winner_takes_all():
    found = pay([3, 1], np.zeros(4), [1.0, 1, 1, 0.25], policy())
    assert (found.earned, found.paid, found.burned) == ({3: 1.0, 1: 0.0}, {3: 0.25, 1: 0.0}, 0.75)


def test_decayed():
    found = pay([3, 1, 2], np.zeros(4), [1.0] * 4, policy(rule="decayed"))
    assert found.paid == {3: 4 / 7, 1: 2 / 7, 2: 1 / 7}
    assert pay([3, 1, 2], np.zeros(4), [1.0] * 4, policy(rule="decayed", places=1)).paid == {3: 1.0}


def test_proportional():
    found = pay([0, 1, 2], np.array([0.6, 0.3, 0.0]), [1.0] * 3, policy(rule="proportional"))
    assert found.paid == pytest.approx({0: 2 / 3, 1: 1 / 3, 2: 0.0})
    alike = pay([0, 1], np.zeros(2), [1.0] * 2, policy(rule="proportional"))
    assert alike.paid == {0: 0.5, 1: 0.5}


def test_what_is_shared_goes_to_others_without_a_penalty():
    rules = policy(rule="decayed", withheld="share")
    found = pay([0, 1, 2], np.zeros(3), [0.5, 1.0, 0.25], rules)
    assert found.paid[0] == 4 / 7 * 0.5
    assert found.paid[1] == pytest.approx(2 / 7 + 4 / 7 * 0.5 + 1 / 7 * 0.75)
    assert found.burned == pytest.approx(0)
    alone = pay([0], np.zeros(1), [0.25], policy(withheld="share"))
    assert (alone.paid, alone.burned) == ({0: 0.25}, 0.75)  # the penalised one does not get its penalty back


def test_nobody_burns_everything():
    assert pay([], np.zeros(0), [], policy()).burned == 1.0


def test_merit_lies_between_the_bounds_of_each_environment():
    plain = items([[0.2, 0.4], [1.0, 0.0]], [[7.0, 9.0], [np.nan, np.nan]])
    assert merits(plain.environments, 2).tolist() == pytest.approx([0.65, 0.25])
    ruled = Field(
        submissions(2),
        (Items("E", -np.array([[10.0], [40.0]]), EnvironmentRule(lower_is_better=True, range=(0.0, 50.0))),),
    )
    assert merits(ruled.environments, 2).tolist() == pytest.approx([0.8, 0.2])
    assert merits((), 2).tolist() == [0, 0]
