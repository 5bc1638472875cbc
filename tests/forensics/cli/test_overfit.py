"""``forensics overfit`` as it is typed."""

from __future__ import annotations

import json
from functools import partial

import pytest

from detectors.overfit.design import draw_exposed
from detectors.overfit.results import NOBODY
from tests.detectors.overfit.fields import field

KEY = bytes(range(32))


def write(path, results, *, tail=""):
    lines = ["epoch,hotkey,environment,item,exposed,score,validator"]
    for miner, item, score in zip(results.miner, results.item, results.score, strict=True):
        cell, held = results.cells[results.item_cell[item]], results.item_validator[item]
        validator = "" if held == NOBODY else results.validators[held]
        lines.append(
            f"{cell.epoch},{results.hotkeys[miner]},{cell.environment},{results.items[item]},"
            f"{int(results.item_exposed[item])},{score:g},{validator}"
        )
    path.write_text("\n".join(lines) + "\n" + tail)
    return path


@pytest.fixture
def run(run):
    return partial(run, "overfit")


@pytest.fixture
def guilty(tmp_path):
    results, truth = field(0, items=250, validators=3, tracers=20, lift=0.4)
    return write(tmp_path / "guilty.csv", results), truth


def test_cheats_and_the_leaker_are_named_and_the_exit_code_says_so(run, guilty):
    path, truth = guilty
    code, out, _ = run(path, "--json")
    document = json.loads(out)
    assert code == 1
    assert set(document["flagged"]) == truth.cheats
    assert document["leaking"] == [truth.leaker]
    for finding in document["findings"]:
        assert finding["evidence"] in document["evidence"]
    (miner,) = [m for m in document["miners"] if m["hotkey"] == document["flagged"][0]]
    assert miner["interval"][0] < miner["lift"] < miner["interval"][1]
    assert miner["fresh_score"] is not None
    assert miner["null"].startswith("calibrated/")


def test_a_person_reads_the_same(run, guilty):
    path, truth = guilty
    code, out, _ = run(path)
    assert code == 1
    assert out.startswith(f"{len(truth.cheats)} of 40 miners")
    assert all(f"{name:<16}  flagged" in out for name in truth.cheats)
    assert "not drawn by lot" in out


def test_an_honest_field_is_clean(run, tmp_path):
    results, _ = field(1, cheats=0, drift=1.0)
    code, out, _ = run(write(tmp_path / "honest.csv", results))
    assert code == 0
    assert out.startswith("0 of 40 miners")


def test_the_lot_is_checked_by_its_key(run, tmp_path):
    results, truth = field(2, items=400, by_lot=True)
    drawn = draw_exposed(results.items, key=KEY, epoch=0, environment="env0")
    order = sorted(range(len(results.items)), key=lambda i: results.items[i] not in drawn)
    names = [""] * len(order)
    for place, source in enumerate(order):
        names[place] = results.items[source]
    path = write(tmp_path / "lot.csv", type(results)(**{**vars(results), "items": tuple(names)}))
    code, out, _ = run(path, "--exposure-key", KEY.hex(), "--json")
    assert code == 1
    assert set(json.loads(out)["flagged"]) == truth.cheats
    assert json.loads(out)["exposure"] == "randomised"
    code, out, err = run(path, "--exposure-key", "11" * 32, "--json")
    assert code == 3
    assert json.loads(out)["error"]["got"].startswith("exposed ")
    assert "not drawn from this key" in err
    assert run(path, "--exposure-key", "11")[0] == 2


def test_epochs_that_come_one_by_one_are_judged_together(run, tmp_path):
    results, truth = field(3, epochs=3, items=100, by_lot=True, lift=0.3)
    for epoch in range(3):
        one = results.only(results.item_cell[results.item] == epoch)
        code, out, err = run(
            write(tmp_path / f"{epoch}.csv", one), "--randomised", "--record", "--netuid", "7", "--json"
        )
        assert "new scores" in err
    document = json.loads(out)
    assert code == 1
    assert document["sequential"] is True
    assert document["epochs"] == [0, 1, 2]
    assert set(document["flagged"]) == truth.cheats


def test_what_is_kept_is_kept_for_a_subnet(run, tmp_path):
    path = write(tmp_path / "one.csv", field(3, items=60)[0])
    assert run(path, "--record")[0] == 2
    for netuid in ("7", "8"):
        code, _, err = run(path, "--record", "--netuid", netuid)
        assert code in (0, 1)
        assert "new scores" in err
    assert "these rows were known" in run(path, "--record", "--netuid", "8")[2]


def test_clusters_of_a_file_are_counted_once(run, guilty, tmp_path):
    path, truth = guilty
    clusters = tmp_path / "clusters.csv"
    clusters.write_text("hotkey,cluster\n" + "".join(f"{name},gang\n" for name in truth.cheats))
    _, out, _ = run(path, "--clusters", clusters, "--json")
    units = {m["unit"] for m in json.loads(out)["miners"] if m["flagged"]}
    assert units == {"gang"}


@pytest.mark.parametrize(
    ("tail", "where"),
    [
        ("0,miner-000,env0,item-0,1,1,\n", "a second score"),
        ("0,late,env0,item-0,0,1,\n", "exposed differently"),
        ("0,late,env0,item-0,1,one,\n", "score: not a number, got one"),
    ],
)
def test_a_bad_row_exits_3_and_names_its_line(run, tmp_path, tail, where):
    results, _ = field(1, miners=8, items=10)
    path = write(tmp_path / "bad.csv", results, tail=tail)
    code, out, err = run(path, "--json")
    assert code == 3
    assert where in err
    assert "line 162" in json.loads(out)["error"]["where"]


def test_a_missing_file_exits_4_and_a_missing_column_3(run, tmp_path):
    assert run(tmp_path / "none.csv")[0] == 4
    (tmp_path / "short.csv").write_text("epoch,hotkey\n1,a\n")
    code, _, err = run(tmp_path / "short.csv")
    assert code == 3
    assert "environment, item, exposed, score" in err
