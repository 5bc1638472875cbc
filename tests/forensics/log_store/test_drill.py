"""The log's drill in small: the same kills, proofs and tampering that the full run does, on both databases."""

from __future__ import annotations

import json
import random

import pytest

from attest.log import Log
from benchmarks.log import writer
from benchmarks.log.__main__ import main
from benchmarks.log.endurance import endure, stored
from benchmarks.log.kills import Story, check, kill_and_check
from benchmarks.log.tampering import tamper_and_check


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_loses_nothing_and_forks_nothing(database_url, tmp_path, kills):
    found = kill_and_check(database_url, tmp_path, kills=kills)
    assert found["kills"] == kills
    assert found["killed_during_append"] + found["killed_during_checkpoint"] > 0
    assert found["leaves"] >= found["acknowledged"] > 0
    assert found["checkpoints_given_out"] > 1


@pytest.mark.parametrize("rows", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_every_start_over_a_changed_row_is_refused(database_url, rows):
    with stored(database_url) as storage:
        log = Log(storage, writer.SIGNER, origin=writer.ORIGIN)
        for turn in range(12 * rows):
            log.append([f"{turn} {number}".encode() for number in range(50)])
            log.checkpoint()
    found = tamper_and_check(database_url, writer.SIGNER, origin=writer.ORIGIN, rows=rows)
    assert found["starts_refused"] >= 6


@pytest.mark.parametrize("leaves", [3000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_proofs_of_a_long_log_hold_and_all_of_it_is_audited(database_url, leaves):
    found = endure(database_url, leaves=leaves, batch=500, proofs=20)
    assert found["leaves"] == leaves


def test_a_lost_leaf_would_be_noticed(tmp_path):
    """The check itself: a log that forgot what it acknowledged must not pass."""
    url = f"sqlite:///{tmp_path}/log.db"
    with stored(url) as storage:
        Log(storage, writer.SIGNER, origin=writer.ORIGIN).append(writer.bodies("writer-0000", 3))
    said = tmp_path / "writer-0000"
    numbers = list(range(len(writer.bodies("writer-0000", 3))))
    said.write_text(json.dumps({"appended": 3, "numbers": [n + 1 for n in numbers]}) + "\n" + '{"begins": 4}\n{"app')
    story = Story.read(said)
    assert story.during == "append"
    with pytest.raises(AssertionError, match="acknowledged and lost"):
        check(url, [story], random.Random(0))  # noqa: S311


def test_a_start_that_accepts_a_changed_row_would_be_noticed(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/log.db"
    with stored(url) as storage:
        log = Log(storage, writer.SIGNER, origin=writer.ORIGIN)
        log.append([b"entry"])
        log.checkpoint()
    monkeypatch.setattr("attest.log.log.audit", lambda reader, key: None)
    with pytest.raises(AssertionError, match="accepted a changed log_leaf"):
        tamper_and_check(url, writer.SIGNER, origin=writer.ORIGIN, rows=1)


def test_the_command_prints_a_table_and_writes_its_figures(tmp_path, capsys):
    out = tmp_path / "figures.json"
    asked = ["--leaves", "600", "--batch", "200", "--proofs", "5", "--kills", "1", "--tampered", "1"]
    assert main([*asked, "--database", "sqlite", "--out", str(out)]) == 0
    assert "leaves_per_second" in capsys.readouterr().out
    figures = json.loads(out.read_text())["figures"]["sqlite"]
    assert figures["endurance"]["leaves"] == 600
    assert figures["kills"]["lost"] == 0
    assert figures["tampering"]["starts_refused"] == figures["tampering"]["rows_tampered"] > 0
