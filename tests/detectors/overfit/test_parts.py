"""Curve, arms, e-process, design, Ladder and the arrays: each by a property that others rest on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.errors import DesignMismatch, MalformedFacts
from detectors.overfit import evalues, robust
from detectors.overfit.arms import EXPOSED, FRESH, arms_of
from detectors.overfit.design import check_exposed, draw_exposed
from detectors.overfit.ladder import Ladder, step_for
from detectors.overfit.results import NOBODY, Row, from_rows

KEY = bytes(range(32))
ITEMS = [f"item-{i}" for i in range(50)]


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_curve_follows_most_points_whatever_the_rest_do(share):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 0.9, 200)
    y = 0.2 - 0.3 * x + 0.5 * x**2 + rng.normal(0, 0.01, 200)
    y[: int(200 * share)] += 0.4
    curve = robust.fit(x, y)
    at = np.linspace(0.15, 0.85, 9)
    assert curve.at(at) == pytest.approx(0.2 - 0.3 * at + 0.5 * at**2, abs=0.01)


def test_few_points_make_no_curve_and_equal_ones_a_flat_one():
    assert robust.fit(np.arange(5.0), np.arange(5.0)) is None
    assert robust.fit(np.full(9, 0.5), np.arange(9.0)).at(0.5) == pytest.approx(4.0, abs=0.5)


def test_arms_take_difficulty_away_and_leave_tracers_out():
    rng = np.random.default_rng(0)
    hard = rng.random(60) < 0.5
    rows = [
        Row(1, f"m{m}", "sat", f"i{i}", i < 30, float(rng.random() < (0.05 if hard[i] else 0.95)))
        for m in range(20)
        for i in range(60)
    ]
    arms = arms_of(from_rows([*rows, Row(1, "m0", "sat", "trace", False, 1.0, "v")]))
    assert arms.count[:, :, 0].tolist() == [[30.0] * 20, [30.0] * 20]
    assert arms.paired[EXPOSED].mean() < 0.4 * arms.raw[EXPOSED].mean()
    by_hand = np.mean([r.score for r in rows if r.hotkey == "m3" and not r.exposed])
    assert arms.mean[FRESH, 3, 0] == pytest.approx(by_hand)


def test_a_miner_alone_on_its_items_keeps_its_noise():
    rows = [Row(1, "a", "sat", f"i{i}", i < 10, float(i % 2)) for i in range(20)]
    arms = arms_of(from_rows(rows))
    assert arms.paired == pytest.approx(arms.raw)
    assert arms.raw.min() > 0.2


def test_looking_after_every_epoch_raises_no_more_alarms_than_the_level():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 2000))
    tilt = np.array([0.3, 0.6, 1.0])
    log_e = (tilt * z[..., None] - tilt**2 / 2)[:, :, None, :]
    process = evalues.process(log_e, [1.0])
    alarms = [process.alarm(m, level=0.05) is not None for m in range(2000)]
    assert np.mean(alarms) < 0.05
    assert np.mean(np.exp(process.path[3])) == pytest.approx(1, abs=0.2)


def test_the_lot_is_reproducible_checked_and_different_everywhere():
    one = draw_exposed(ITEMS, key=KEY, epoch=1, environment="sat")
    assert len(one) == 25
    assert one == draw_exposed(list(reversed(ITEMS)), key=KEY, epoch=1, environment="sat")
    assert one != draw_exposed(ITEMS, key=KEY, epoch=2, environment="sat")
    assert one != draw_exposed(ITEMS, key=KEY, epoch=1, environment="list")
    rows = [Row(1, "m", "sat", item, item in one, 1.0) for item in ITEMS]
    check_exposed(from_rows(rows), key=KEY)
    swapped = {min(one), max(set(ITEMS) - one)}
    chosen = [r._replace(exposed=not r.exposed) if r.item in swapped else r for r in rows]
    with pytest.raises(DesignMismatch, match="item-"):
        check_exposed(from_rows(chosen), key=KEY)


def test_the_golden_lot():
    drawn = draw_exposed([str(i) for i in range(10)], key=KEY, epoch=7, environment="sat", share=Fraction(3, 10))
    assert sorted(drawn) == GOLDEN_LOT


GOLDEN_LOT = ["2", "3", "9"]


@pytest.mark.parametrize(
    "options", [{"key": b"short"}, {"share": Fraction(3, 2)}, {"items": ["a", "a"]}], ids=["key", "share", "twice"]
)
def test_a_lot_that_cannot_be_drawn_is_refused(options):
    whole = {"items": ITEMS, "key": KEY, "epoch": 0, "environment": "sat", **options}
    with pytest.raises(MalformedFacts):
        draw_exposed(whole.pop("items"), **whole)


@given(st.lists(st.fractions(0, 1), min_size=1, max_size=30), st.sampled_from([Fraction(1, 20), Fraction(1, 7)]))
def test_the_ladder_only_climbs_in_steps_and_stays_near_the_best(scores, step):
    ladder, best, before = Ladder(step), Fraction(0), None
    for score in scores:
        shown, ladder = ladder.publish("unit", score)
        best = max(best, score)
        assert before is None or shown == before or shown >= before + step / 2
        assert (shown / step).denominator == 1
        assert best - step * Fraction(3, 2) <= shown <= best + step / 2
        before = shown


def test_hotkeys_of_one_unit_climb_one_ladder():
    _, ladder = Ladder(Fraction(1, 10)).publish("gang", Fraction(1, 2))
    shown, same = ladder.publish("gang", Fraction(11, 20))
    assert shown == Fraction(1, 2)
    assert same is ladder
    assert ladder.publish("other", Fraction(1, 5))[0] == Fraction(1, 5)


def test_steps_shrink_with_items_and_grow_with_submissions():
    assert step_for(items=1000, submissions=10) < step_for(items=100, submissions=10)
    assert step_for(items=1000, submissions=10) < step_for(items=1000, submissions=10_000)
    with pytest.raises(MalformedFacts):
        step_for(items=0, submissions=1)
    with pytest.raises(MalformedFacts):
        Ladder(Fraction(0))


ROW = Row(3, "a", "sat", "i", False, 0.5, None, 7)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (ROW, "line 7: a second score"),
        (ROW._replace(hotkey="b", exposed=True), "line 7: the item is exposed differently"),
        (ROW._replace(hotkey="b", validator="v"), "tracer of v"),
        (ROW._replace(item="j", score=float("nan")), "not a score"),
        (ROW._replace(item="j", score=1e12), "not a score"),
        (ROW._replace(item="j", epoch=-1), "not an epoch"),
        (ROW._replace(item=""), "item: empty"),
        (ROW._replace(item="j", exposed=True, validator="v"), "traces nobody"),
    ],
)
def test_rows_that_contradict_are_refused_with_their_line(second, message):
    with pytest.raises(MalformedFacts, match=message):
        from_rows([ROW, second])


def test_no_rows_are_no_results():
    with pytest.raises(MalformedFacts, match="no rows"):
        from_rows([])


def test_clusters_make_units_and_names_do_not_collide():
    rows = [Row(1, hotkey, "sat", "i", False, 1.0) for hotkey in ("a", "b", "gang")]
    results = from_rows(rows, clusters={"a": "gang", "b": "gang"})
    assert results.units[0] == results.units[1] != results.units[2]
    assert results.item_validator.tolist() == [NOBODY]
