from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from detectors.multiplicity import benjamini_hochberg, e_benjamini_hochberg, holm, simes

P = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=40)


@given(P)
def test_benjamini_hochberg_is_scipys(p):
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


@given(P)
def test_holm_is_between_raw_and_bonferroni_and_keeps_the_order(p):
    adjusted = holm(p)
    assert (adjusted >= np.array(p) - 1e-15).all()
    assert (adjusted <= np.minimum(1, len(p) * np.array(p)) + 1e-15).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@given(st.floats(1e-9, 1.0), st.integers(1, 30))
def test_copies_with_one_p_value_count_as_one(p, copies):
    assert simes([p] * copies) == pytest.approx(p)


def test_e_values_are_rejected_by_how_many_are_large():
    e = np.log([1000.0, 39.0, 26.0, 1.0])
    assert e_benjamini_hochberg(e, level=0.05).tolist() == [True, False, False, False]
    assert e_benjamini_hochberg(np.log([1000.0, 41.0, 1.0, 1.0]), level=0.05).tolist() == [True, True, False, False]
    assert not e_benjamini_hochberg(np.log([3.0, 2.0]), level=0.05).any()


def test_nothing_to_correct_is_nothing():
    assert benjamini_hochberg([]).size == holm([]).size == e_benjamini_hochberg([], level=0.1).size == 0
