"""The ordered front against its definition, and what must hold of it whatever the scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.scoring import front as ordered
from forensics.scoring.comparing import Pairwise
from forensics.scoring.field import Environment, Field, Items, Means
from forensics.scoring.front import Front, holder, run
from tests.forensics.scoring.fields import bernoulli, items, means

SEEDS = st.integers(0, 2**32 - 1)


def pairwise_of(field: Field, alpha: float = 0.05) -> Pairwise:
    return Pairwise(field, [alpha] * len(field.submissions), worse_alpha=0.05, min_overlap=0.5)


def play(field: Field, alpha: float = 0.05) -> Front:
    count = len(field.submissions)
    return run(pairwise_of(field, alpha), np.arange(count), count)


def by_definition(pairs: Pairwise, count: int) -> tuple[list[int], list[int], list[int]]:
    """The module's docstring, one pair at a time."""

    def beats(later: int, earlier: int) -> bool:
        return any(d.result == "better" for d in pairs.details(later, earlier))

    def worse(later: int, earlier: int) -> bool:
        return bool(pairs.worse(np.array([later]), np.array([earlier]))[0, 0])

    entered: list[int] = []
    crowns: list[int] = []
    dethroned = [-1] * count
    for place in range(count):
        if not all(beats(place, other) for other in entered):
            continue
        for other in entered:
            if dethroned[other] < 0 and not worse(place, other):
                dethroned[other] = place
        if not crowns or not any(worse(place, other) for other in crowns):
            crowns.append(place)
        entered.append(place)
    return entered, dethroned, crowns


def drawn(seed: int, *, count: int = 30) -> Field:
    """Items or means, some missing, some environments lower-is-better, some errors unknown."""
    rng = np.random.default_rng(seed)
    skill = rng.uniform(0.3, 0.7, size=count) + np.linspace(0, 0.3, count) * rng.integers(0, 2)
    if seed % 2:
        return bernoulli(rng, skill, width=3, questions=40, missing=rng.choice([0.0, 0.1, 0.4]))
    mean = skill[:, None] + rng.normal(scale=0.2, size=(count, 4))
    mean[rng.random(mean.shape) < rng.choice([0.0, 0.2])] = np.nan
    error = rng.choice([0.01, 0.05, np.nan], p=[0.5, 0.4, 0.1], size=mean.shape)
    return means(mean, error)


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_blocks_and_shortcuts_change_nothing(seed):
    field = drawn(seed)
    found, count = play(field), len(field.submissions)
    assert (found.entered.tolist(), found.dethroned_by.tolist(), list(found.crowns)) == by_definition(
        pairwise_of(field), count
    )


def test_many_models_as_by_definition(monkeypatch):
    """Several blocks, several chunks of those that entered, ties and gaps."""
    rng = np.random.default_rng(5)
    field = means(np.round(rng.random((120, 5)), 1), 0.02)
    found = play(field)
    assert found.entered.tolist() == by_definition(pairwise_of(field), 120)[0]
    monkeypatch.setattr(ordered, "BLOCK", 7)
    monkeypatch.setattr(ordered, "SMALL", 3)
    monkeypatch.setattr(ordered, "FIRST", 2)
    again = play(field)
    assert again.entered.tolist() == found.entered.tolist()
    assert again.dethroned_by.tolist() == found.dethroned_by.tolist()
    assert again.crowns == found.crowns


@settings(deadline=None, max_examples=25)
@given(SEEDS, st.integers(1, 29))
def test_what_comes_later_changes_nothing_for_earlier_ones(seed, kept):
    """A rival cannot undo a success by registering more models."""
    field = drawn(seed)
    parts = tuple(_head(environment, kept) for environment in field.environments)
    short = play(Field(field.submissions[:kept], parts))
    whole = play(field)
    assert whole.entered[whole.entered < kept].tolist() == short.entered.tolist()
    assert [place for place in whole.crowns if place < kept] == list(short.crowns)


def _head(environment: Environment, count: int) -> Environment:
    if isinstance(environment, Items):
        return replace(environment, scores=environment.scores[:count])
    return Means(
        environment.name,
        environment.mean[:count],
        environment.variance[:count],
        environment.count[:count],
        environment.rule,
    )


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_no_cycles(seed):
    """Whoever wears the crown is worse nowhere than anybody who wore it before."""
    field = drawn(seed)
    pairs, found = pairwise_of(field), play(field)
    assert ordered.cycles(pairs, found) == ()
    for later, earlier in zip(found.crowns[1:], found.crowns, strict=False):
        assert pairs.better(np.array([later]), np.array([earlier]))[0, 0]


def test_a_little_worse_each_time_does_not_add_up():
    """Each is better in one environment and a little worse in the other: without memory the crown would drift."""
    steps = np.arange(8)
    mean = np.column_stack([0.2 + 0.1 * steps, 0.9 - 0.02 * steps])
    found = play(means(mean, 0.01))
    assert found.entered.tolist() == steps.tolist()
    assert mean[found.crowns[-1], 1] > 0.9 - 1.65 * 0.0142
    assert len(found.crowns) == 2


def test_a_copy_of_a_fallen_model_does_not_come_back():
    mean = np.array([[0.5, 0.5], [0.9, 0.5], [0.5, 0.5]])
    found = play(means(mean, 0.01))
    assert (found.entered.tolist(), found.crowns) == ([0, 1], (0, 1))
    assert holder(pairwise_of(means(mean, 0.01)), found, 2) == 0


def test_a_specialist_stands_on_the_front_and_keeps_nobody_from_the_crown():
    mean = np.array([[0.5, 0.5], [0.9, 0.1], [0.7, 0.7]])
    found = play(means(mean, 0.01))
    assert found.survivors.tolist() == [1, 2]
    assert found.crowns == (0, 2)


def test_equal_scores_leave_the_first_where_it_is():
    found = play(items(np.ones((5, 30)), np.zeros((5, 30))))
    assert (found.entered.tolist(), found.crowns) == ([0], (0,))


def test_nobody_and_one():
    assert run(pairwise_of(items([[1.0]])), np.array([], dtype=np.intp), 1).crown is None
    assert play(items([[1.0]])).crown == 0


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_shuffled_items_and_renamed_environments_change_nothing(missing):
    rng = np.random.default_rng(11)
    field = bernoulli(rng, np.linspace(0.3, 0.8, 20), width=4, questions=60, missing=missing)
    mixed = [
        Items(f"other {i}", e.scores[:, rng.permutation(60)], e.rule)
        for i, e in enumerate(field.environments[::-1])
        if isinstance(e, Items)
    ]
    one, other = play(field), play(Field(field.submissions, tuple(mixed)))
    assert (one.entered.tolist(), one.crowns) == (other.entered.tolist(), other.crowns)
