"""``forensics demo`` as a command: its exit code, its document, what it leaves behind, and how it ends."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from forensics.cli.main import main
from forensics.client import Reading, State
from forensics.demo import next_steps, play
from forensics.demo.next_steps import Step
from tests.forensics.demo.test_table import ACCUSED, CAUGHT, HELD

NOTHING = Reading(State.NEUTRAL, None, (), datetime(2026, 11, 30, tzinfo=UTC))


class Playing:
    """A show whose verdicts are given; it is interrupted as soon as it waits."""

    def __init__(self, rows, folder: Path) -> None:
        self.rows, self.waited = rows, False
        self.running = SimpleNamespace(url="http://127.0.0.1:1", key="key", home=folder / "home", wait=self._wait)

    def play(self, *, say):
        return self.rows

    def reading(self) -> Reading:
        return NOTHING

    def _wait(self) -> None:
        self.waited = True
        raise KeyboardInterrupt


@pytest.fixture
def stage(monkeypatch):
    """Rows and steps that are played at once; the folder it was told to work in, and the show."""
    set_ = SimpleNamespace(rows=[CAUGHT, CAUGHT], steps=[Step("Verify", "forensics verify x")], folder=None, show=None)

    def prepare(folder, *, say):
        folder.mkdir(parents=True, exist_ok=True)
        set_.folder = folder

    @contextmanager
    def open_show(folder, waves, *, say):
        set_.show = Playing(set_.rows, folder)
        yield set_.show

    monkeypatch.setattr(play, "prepare", prepare)
    monkeypatch.setattr(play, "upload", lambda ready: ())
    monkeypatch.setattr(play, "open_show", open_show)
    monkeypatch.setattr(next_steps, "next_steps", lambda *_: set_.steps)
    return set_


def test_once_prints_ends_and_leaves_nothing_behind(stage, capsys):
    assert main(["demo", "--once"]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 copies caught, 0 of 0 honest miners accused" in out
    assert "forensics verify x" in out
    assert not stage.show.waited
    assert not stage.folder.exists()


def test_without_once_it_serves_until_interrupted_and_keeps_everything(stage, own_home, capsys):
    assert main(["demo"]) == 0
    assert stage.show.waited
    assert stage.folder == own_home / "demo"
    assert stage.folder.exists()
    assert "interrupt to stop" in capsys.readouterr().err


def test_two_demos_do_not_share_a_home(stage, own_home, capsys):
    own_home.mkdir()
    with (own_home / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["demo"]) == 4
    assert stage.folder is None
    assert "a demo is running" in capsys.readouterr().err


def test_a_false_accusation_fails_the_demo(stage, capsys):
    stage.rows = [CAUGHT, ACCUSED]
    assert main(["demo", "--once", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [row["accused"] for row in document["uids"]] == [False, True]
    assert document["uids"][0]["of"] == [{"label": "ada", "weight": 1.0}]
    assert document["service"]["url"] == "http://127.0.0.1:1"


def test_so_does_a_copy_that_is_only_held_and_evidence_that_does_not_check_out(stage):
    stage.rows = [HELD]
    assert main(["demo", "--once"]) == 1
    stage.rows, stage.steps = [CAUGHT], [Step("Recompute", good=False)]
    assert main(["demo", "--once"]) == 1


def test_the_picture_is_drawn(stage, tmp_path):
    assert main(["demo", "--once", "--picture", str(tmp_path / "demo.svg")]) == 0
    assert "copies caught" in (tmp_path / "demo.svg").read_text().replace("&#160;", " ")
