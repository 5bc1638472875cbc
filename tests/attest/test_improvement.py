"""Improvement: an exact test on paired scores, and only for a confirmed child."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import MalformedInput
from attest.improvement import PairedScores, judge_improvement, pair, sign_test
from attest.lineage import Judgement
from tests.attest.material import digest

P, C, REVEALS = digest("parent"), digest("child"), (digest("reveal"),)
LEVEL = Fraction(1, 1000)


def scores(wins: int, losses: int, ties: int = 0) -> PairedScores:
    return PairedScores(parent=P, child=C, reveals=REVEALS, wins=wins, losses=losses, ties=ties)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_the_binomial_tail(wins: int, losses: int) -> None:
    n = wins + losses
    assert sign_test(wins, losses) == Fraction(sum(comb(n, k) for k in range(wins, n + 1)), 2**n)


def test_pairs_are_counted_exactly() -> None:
    third = Fraction(1, 3)
    assert pair(P, C, REVEALS, [(0, 1), (third, third), (1, 0), (third, 1)]) == scores(2, 1, 1)


@pytest.mark.parametrize(
    ("lineage", "record", "expected"),
    [
        (Judgement.CONFIRMED, scores(30, 2), Judgement.CONFIRMED),
        (Judgement.CONFIRMED, scores(10, 0), Judgement.CONFIRMED),
        (Judgement.CONFIRMED, scores(9, 0), Judgement.UNVERIFIABLE),
        (Judgement.CONFIRMED, scores(0, 0, 500), Judgement.UNVERIFIABLE),
        (Judgement.CONFIRMED, scores(2, 30), Judgement.CONTRADICTED),
        (Judgement.UNVERIFIABLE, scores(30, 2), Judgement.UNVERIFIABLE),
        (Judgement.CONTRADICTED, scores(30, 2), Judgement.CONTRADICTED),
    ],
)
def test_only_a_confirmed_child_with_better_scores_improved(
    lineage: Judgement, record: PairedScores, expected: Judgement
) -> None:
    assert judge_improvement(lineage, record, level=LEVEL) is expected


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1), Fraction(-1)])
def test_levels_nobody_can_mean_are_refused(level: Fraction) -> None:
    with pytest.raises(MalformedInput):
        judge_improvement(Judgement.CONFIRMED, scores(1, 0), level=level)


def test_scores_name_two_models_and_hidden_seeds() -> None:
    for change in ({"child": P}, {"reveals": ()}, {"wins": 30_000}, {"ties": -1}):
        parts = {"parent": P, "child": C, "reveals": REVEALS, "wins": 1, "losses": 0, "ties": 0}
        with pytest.raises(MalformedInput):
            PairedScores(**(parts | change))  # type: ignore[arg-type]
    assert PairedScores.read(scores(3, 1).write()) == scores(3, 1)
