from __future__ import annotations

import numpy as np
import pytest

from detectors.overfit.tracer import trace
from tests.detectors.overfit.fields import field


def units(results, hotkeys):
    return {int(results.units[results.hotkeys.index(h)]) for h in hotkeys}


@pytest.mark.parametrize("suspected", [True, False])
def test_the_validator_that_leaked_is_named_and_so_are_those_it_told(suspected):
    results, truth = field(1, validators=5, tracers=25, lift=0.4, cheats=4)
    suspects = units(results, truth.cheats) if suspected else ()
    found = trace(results, suspects=suspects, level=0.01, rng=np.random.default_rng(0))
    (leak,) = [t for t in found if t.named]
    assert leak.validator == truth.leaker
    told = {t.hotkey for t in leak.told if t.named}
    assert told
    assert told <= truth.cheats


def test_nobody_is_named_when_nobody_leaked():
    named = 0
    for seed in range(6):
        results, truth = field(seed, validators=4, tracers=12, told=False)
        found = trace(results, suspects=units(results, truth.cheats), level=0.01, rng=np.random.default_rng(seed))
        named += sum(t.named for t in found)
    assert named == 0


def test_a_set_of_easy_tracers_makes_nobody_a_leaker():
    results, truth = field(3, validators=4, tracers=12, told=False)
    easy = results.item_validator[results.item] == 2
    score = np.where(easy, np.maximum(results.score, results.item % 3 > 0), results.score)
    results = type(results)(**{**vars(results), "score": score})
    found = trace(results, suspects=units(results, truth.cheats), level=0.01, rng=np.random.default_rng(0))
    assert not any(t.named for t in found)


@pytest.mark.slow
@pytest.mark.parametrize("suspected", [True, False])
def test_honest_validators_are_named_no_more_often_than_the_level_says(suspected):
    runs, level, named = 300, 0.05, 0
    for seed in range(runs):
        results, _ = field(seed, miners=40, items=30, cheats=4, validators=4, tracers=15, told=False)
        suspects = range(4) if suspected else ()
        found = trace(results, suspects=suspects, level=level, rng=np.random.default_rng(seed))
        named += any(t.named for t in found)
    assert named <= runs * level + 3 * (runs * level * (1 - level)) ** 0.5


def test_graded_scores_trace_a_leak_too():
    results, truth = field(4, validators=4, tracers=25, lift=0.4, cheats=4, graded=True)
    found = trace(results, suspects=units(results, truth.cheats), level=0.01, rng=np.random.default_rng(0))
    assert [t.validator for t in found if t.named] == [truth.leaker]


def test_an_adjusted_p_value_never_falls_below_that_of_who_was_named_before():
    results, truth = field(1, validators=5, tracers=25, lift=0.4, cheats=4)
    found = trace(results, suspects=units(results, truth.cheats), level=0.5, rng=np.random.default_rng(0))
    leak = next(t for t in found if t.validator == truth.leaker)
    assert leak.adjusted == min(t.adjusted for t in found)
    assert all(t.named == (t.adjusted <= 0.5) for t in found)


def test_one_validator_alone_cannot_be_judged():
    results, _ = field(1, validators=1, tracers=20)
    assert trace(results, level=0.01, rng=np.random.default_rng(0)) == ()
