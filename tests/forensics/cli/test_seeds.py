"""The commands of hidden seeds: documents, exit codes, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from forensics.cli.main import main
from forensics.cli.seeds_parts import TRACERS
from tests.attest.seeds.test_beacon import OTHER_ROUNDS
from tests.docs.pages import ROOT
from tests.docs.test_seed_pages import SEED_KEY, desk_of, turn

ITEMS = ["--items", "sat=6+2", "--items", "deduction=4+0", "--generator", "generators.py"]
ROUNDS = ["--mix-round", "123", "--every", "5000", "--window", "877"]
WHERE = ["--netuid", "120", "--chain", "chain.json", "--beacon", "beacon.jsonl", "--json"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    desk = desk_of(tmp_path / "desk")
    monkeypatch.chdir(desk)
    monkeypatch.setenv("FORENSICS_SEED_KEY", SEED_KEY)
    return desk


@pytest.fixture
def run(capsys):
    """Exit code and document of a command."""

    def run(*words):
        code = main(["seeds", *words])
        return code, json.loads(capsys.readouterr().out)

    return run


def publish(desk, *rounds):
    (desk / "beacon.jsonl").write_text("".join((desk / f"round-{r}.json").read_text() for r in rounds))


def test_a_life_in_documents(desk, run):
    code, said = run("commit", *ITEMS, *ROUNDS, "--count", "2", *WHERE, "--out", "public")
    assert code == 0
    assert [epoch["state"] for epoch in said["epochs"]] == ["anchored", "anchored"]
    assert said["epochs"][0]["mix_at"] == "2023-08-23T15:15:33Z"
    assert {epoch["batch"]["root"] for epoch in said["epochs"]} == {said["epochs"][1]["batch"]["root"]}
    assert SEED_KEY not in json.dumps(said)

    code, said = run("reveal", "0", *WHERE)
    assert (code, said["error"]["code"]) == (4, "epoch_hidden")

    turn(desk, 1692803740)
    publish(desk, 123)
    code, said = run("current", *WHERE)
    assert (code, said["epochs"][0]["state"], said["epochs"][0]["validators"]) == (0, "open", 1)

    publish(desk, *OTHER_ROUNDS)
    code, said = run("reveal", "0", *WHERE, "--out", "public")
    assert (code, said["epochs"][0]["state"]) == (0, "revealed")

    code, said = run("verify", "public/epoch-0.json", "--items", "--json")
    assert (code, said["verdict"], said["beacon"], said["key_pinned"]) == (0, "verified", "quicknet", False)
    assert len(said["items"]) == 12
    assert sum(item["validator"] is not None for item in said["items"]) == 2
    code, said = run("verify", "public/epoch-1.json", "--at", "2023-08-23T15:20:00Z", "--json")
    assert (code, said["verdict"]) == (0, "pending")


def test_current_shows_the_running_epoch_or_all(desk, run):
    run("commit", *ITEMS, *ROUNDS, "--count", "3", *WHERE)
    assert [epoch["epoch"] for epoch in run("current", *WHERE)[1]["epochs"]] == [0]
    assert [epoch["epoch"] for epoch in run("current", "--all", *WHERE)[1]["epochs"]] == [0, 1, 2]


def test_nothing_committed_is_no_error(desk, run):
    assert run("current", *WHERE) == (0, {"log": run("current", *WHERE)[1]["log"], "epochs": [], "happened": []})


@pytest.mark.parametrize(
    "changed",
    [
        ["--items", "sat"],
        ["--items", "sat=x"],
        ["--items", "=3"],
        ["--generator", "no such file"],
        ["--mix-round", "0"],
        ["--window", "0"],
        ["--count", "0"],
        ["--every", "0"],
        ["--beacon", "no such file"],
        ["--items", "sat=7"],
        ["--items", "lists=0"],
        ["--items", "lists=0+0"],
        ["--items", "lists=³"],
        ["--items", "lists=9" + "9" * 5000],
        ["--items", "lists=100001"],
        ["--items", "lists=1+1001"],
        ["--items", "a\nb=1"],
        ["--items", "x" * 600 + "=1"],
        ["--first", "-1"],
        ["--first", str((1 << 53) - 1), "--count", "2"],
        ["--first", str(1 << 60)],
        ["--window", str(10**9)],
        ["--window", str(10**30)],
        ["--every", str(10**9)],
        ["--mix-round", str((1 << 53) - 1)],
        ["--netuid", "70000"],
        ["--generator", "."],
        ["--generator", "/dev/zero"],
        ["--generator", "x" * 9000],
    ],
)
def test_what_makes_no_sense_is_usage(desk, run, changed):
    code, said = run("commit", *ITEMS, *ROUNDS, *WHERE, *changed)
    assert (code, said["error"]["code"]) == (2, "usage_error")


def test_tracers_are_shared_by_the_environments_that_name_none(desk, run):
    items = ["--items", "sat=6", "--items", "lists=4", "--items", "deduction=3+5", "--generator", "generators.py"]
    code, said = run("commit", *items, *ROUNDS, *WHERE, "--count", "1")
    plan = {e["name"]: (e["common"], e["tracers"]) for e in said["epochs"][0]["plan"]["environments"]}
    assert (code, plan) == (0, {"sat": (6, TRACERS // 2), "lists": (4, TRACERS // 2), "deduction": (3, 5)})


def test_asking_again_with_the_same_round_changes_nothing(desk, run):
    words = ["commit", *ITEMS, *ROUNDS, *WHERE, "--count", "2"]
    assert run(*words)[1]["epochs"] == run(*words)[1]["epochs"]
    assert run(*words, "--items", "lists=1")[0] == 3
    assert len(run("current", "--all", *WHERE)[1]["epochs"]) == 2


def test_two_commands_at_once_on_an_empty_home_commit_once(desk, run, tmp_path):
    script = "import sys; from forensics.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["seeds", "commit", *ITEMS, *ROUNDS, *WHERE, "--count", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    both = [
        subprocess.Popen([sys.executable, "-c", script, *words], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0]["epochs"][0]["commitment"] == said[1]["epochs"][0]["commitment"]
    assert len(run("current", "--all", *WHERE)[1]["epochs"]) == 2


def test_a_wrong_sealing_key_is_an_error_and_changes_nothing(desk, run, monkeypatch):
    run("commit", *ITEMS, *ROUNDS, *WHERE, "--count", "1")
    turn(desk, 1692803740)
    publish(desk, 123)
    monkeypatch.setenv("FORENSICS_SEED_KEY", "08" * 32)
    for words in (["current"], ["reveal", "0"], ["commit", *ITEMS, "--generator", "generators.py"]):
        code, said = run(*words, *WHERE)
        assert (code, said["error"]["code"]) == (3, "seal_invalid")
        assert "FORENSICS_SEED_KEY" in said["error"]["remedy"]
    monkeypatch.setenv("FORENSICS_SEED_KEY", SEED_KEY)
    code, said = run("current", *WHERE)
    assert (code, said["epochs"][0]["state"]) == (0, "open")


def test_without_a_sealing_key_nothing_is_drawn(desk, run, monkeypatch):
    for key in ("", "07", "zz" * 32):
        monkeypatch.setenv("FORENSICS_SEED_KEY", key)
        code, said = run("commit", *ITEMS, *ROUNDS, *WHERE)
        assert (code, said["error"]["code"]) == (2, "usage_error")
        assert "FORENSICS_SEED_KEY" in said["error"]["expected"]
    assert run("current", *WHERE)[1]["epochs"] == []


def test_files_that_are_none(desk, run):
    (desk / "bad.json").write_text("{}")
    assert run("verify", "bad.json", "--json")[0] == 3
    assert run("verify", "absent.json", "--json")[0] == 4
    run("commit", *ITEMS, *ROUNDS, *WHERE, "--out", "public", "--count", "1")
    for words in (["--trust", "nobody"], ["--at", "noon"], ["--rehearsal-key", "zz"]):
        assert run("verify", "public/epoch-0.json", *words, "--json")[0] == 2
    (desk / "chain.json").write_text("{}")
    assert run("current", *WHERE)[0] == 3
