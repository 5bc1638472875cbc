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


def test_one_validator_alone_cannot_be_judged():
    results, _ = field(1, validators=1, tracers=20)
    assert trace(results, level=0.01, rng=np.random.default_rng(0)) == ()
