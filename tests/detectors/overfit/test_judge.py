from __future__ import annotations

import numpy as np
import pytest

from detectors.errors import MalformedFacts
from detectors.overfit.judge import judge
from detectors.overfit.report import Exposure, Status
from detectors.overfit.results import Row, from_rows
from tests.detectors.overfit.fields import field

BOTH = pytest.mark.parametrize("exposure", list(Exposure))


def decide(results, exposure=Exposure.CALENDAR, **options):
    return judge(results, exposure=exposure, rng=np.random.default_rng(1), **options)


def names(report):
    return {m.hotkey for m in report.flagged}


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_who_learned_exposed_items_is_flagged_and_nobody_else(exposure, seed):
    results, truth = field(seed, items=400, by_lot=exposure is Exposure.RANDOMISED)
    assert names(decide(results, exposure)) == truth.cheats


@pytest.mark.parametrize("drift", [-1.5, 1.0, 2.0])
def test_harder_or_easier_fresh_items_accuse_nobody(drift):
    for seed in range(3):
        results, _ = field(seed, cheats=0, drift=drift)
        assert names(decide(results)) == set()


@pytest.mark.parametrize("seed", range(3))
def test_cheats_are_seen_through_drift(seed):
    results, truth = field(seed, items=400, drift=1.5)
    assert names(decide(results)) == truth.cheats


@BOTH
def test_graded_scores_are_judged_too(exposure):
    results, truth = field(2, items=80, miners=20, by_lot=exposure is Exposure.RANDOMISED, graded=True)
    assert names(decide(results, exposure)) == truth.cheats


def test_a_cheat_in_one_environment_of_four_is_seen():
    results, truth = field(3, environments=4, items=150, cheats=1)
    (cheat,) = truth.cheats
    honest, _ = field(3, environments=4, items=150, cheats=0)
    elsewhere = results.item_cell[results.item] != 2
    mixed = type(results)(**{**vars(results), "score": np.where(elsewhere, honest.score, results.score)})
    report = decide(mixed)
    assert names(report) == {cheat}
    (finding,) = report.findings
    assert "some_environments_clean" in {e.code for e in finding.exculpatory}


def test_epochs_add_up_by_e_values_and_the_alarm_names_the_epoch():
    results, truth = field(4, epochs=5, items=120, by_lot=True, lift=0.25)
    report = decide(results, Exposure.RANDOMISED)
    assert report.sequential
    assert names(report) == truth.cheats
    assert all(m.alarm is not None and m.q is None for m in report.flagged)
    assert all(m.p == pytest.approx(np.exp(-m.log_e)) for m in report.flagged)


def test_one_look_at_several_epochs_uses_p_values():
    results, truth = field(4, epochs=3, items=60, by_lot=True, lift=0.35)
    report = decide(results, Exposure.RANDOMISED, once=True)
    assert not report.sequential
    assert names(report) == truth.cheats
    assert all(m.q <= report.level for m in report.flagged)


def test_old_items_of_earlier_epochs_and_fresh_ones_of_the_last_are_compared():
    results, truth = field(6)
    split = type(results)(
        **{
            **vars(results),
            "cells": (results.cells[0], results.cells[0]._replace(epoch=9)),
            "item_cell": np.where(results.item_exposed, 0, 1),
        }
    )
    assert names(decide(split)) == truth.cheats
    with pytest.raises(MalformedFacts, match="by lot"):
        decide(split, Exposure.RANDOMISED)


def test_copies_count_once_and_do_not_bend_the_curve():
    results, truth = field(7, cheats=1, miners=20)
    (cheat,) = truth.cheats
    source = results.hotkeys.index(cheat)
    copies, mine = 30, results.miner == source
    hotkeys = results.hotkeys + tuple(f"x-copy-{i:02}" for i in range(copies))
    many = type(results)(
        **{
            **vars(results),
            "hotkeys": hotkeys,
            "units": np.r_[results.units, np.full(copies, results.units[source])],
            "miner": np.r_[results.miner, np.repeat(np.arange(20, 20 + copies), mine.sum())],
            "item": np.r_[results.item, np.tile(results.item[mine], copies)],
            "score": np.r_[results.score, np.tile(results.score[mine], copies)],
        }
    )
    alone = type(many)(**{**vars(many), "units": np.arange(len(hotkeys)), "unit_names": tuple(hotkeys)})
    assert names(decide(many)) == {cheat, *(h for h in hotkeys if h.startswith("x-copy"))}
    assert not names(decide(alone)) & {cheat}  # unclustered, thirty copies look like the field


def test_an_honest_hotkey_in_a_cluster_of_cheats_is_not_named():
    _, truth = field(8, cheats=2)
    honest = next(f"miner-{i:03}" for i in range(40) if f"miner-{i:03}" not in truth.cheats)
    results, _ = field(8, cheats=2, clusters=dict.fromkeys([*truth.cheats, honest], "gang"))
    report = decide(results)
    assert names(report) == truth.cheats
    assert {e.code for f in report.findings for e in f.exculpatory} >= {"cluster_peers_clear", "fresh_rank"}


def test_too_few_miners_to_calibrate_is_inconclusive_and_says_so():
    results, _ = field(1, miners=5, cheats=1)
    report = decide(results)
    assert {m.status for m in report.miners} == {Status.INCONCLUSIVE}
    assert all("calibrated" in m.reason for m in report.miners)
    assert report.findings == ()


def test_a_miner_without_exposed_items_is_inconclusive():
    results, _ = field(1, miners=12, cheats=0)
    keep = ~((results.miner == 3) & results.item_exposed[results.item])
    report = decide(results.only(keep))
    assert [m.hotkey for m in report.miners if m.status is Status.INCONCLUSIVE] == ["miner-003"]
    assert "nothing to compare" in report.miners[3].reason


def test_the_fresh_score_leaves_exposed_items_and_tracers_out():
    rows = [Row(1, "a", "sat", "old", True, 1.0), Row(1, "a", "sat", "new", False, 0.25)]
    rows += [Row(1, "a", "sat", "trace", False, 1.0, "v"), Row(1, "a", "list", "new", False, 0.75)]
    (miner,) = decide(from_rows(rows)).miners
    assert {f.environment: (f.score, f.items) for f in miner.fresh} == {"sat": (0.25, 1), "list": (0.75, 1)}
    assert miner.fresh_score == 0.5


def test_findings_point_at_evidence_and_say_what_speaks_against_them():
    results, _ = field(0)
    report = decide(results)
    assert len(report.findings) == 3
    for finding in report.findings:
        assert finding.evidence in report.evidence
        assert report.evidence[finding.evidence]["hotkey"] == finding.subject.name
        assert finding.measured["lift_low"] < finding.measured["lift"] < finding.measured["lift_high"]
        assert "not_randomised" in {e.code for e in finding.exculpatory}
        assert finding.log10_likelihood_ratio > 2


def test_the_same_rows_in_another_order_give_the_same_answer():
    results, _ = field(0, validators=3, tracers=10)
    order = np.random.default_rng(0).permutation(results.score.size)
    other = type(results)(**{**vars(results), **{n: getattr(results, n)[order] for n in ("miner", "item", "score")}})
    first, second = decide(results), decide(other)
    assert first.results == second.results
    assert [f.digest for f in first.findings] == [f.digest for f in second.findings]


@pytest.mark.parametrize("level", [0.0, -1.0, 0.6])
def test_a_level_out_of_range_is_refused(level):
    results, _ = field(0)
    with pytest.raises(MalformedFacts, match="level"):
        decide(results, level=level)


@pytest.mark.parametrize("exposed", [True, False])
def test_a_table_with_one_side_alone_decides_nothing(exposed):
    report = decide(from_rows([Row(7, "ada", "sat", "1", exposed, 1.0)]))
    assert names(report) == set()
    assert [m.status for m in report.miners] == [Status.INCONCLUSIVE]
