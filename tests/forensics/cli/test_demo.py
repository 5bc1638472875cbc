"""``forensics demo`` as a command: its exit code, its document, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fingerprint.compare.relation import Relation
from forensics.cli.main import main
from forensics.demo import play
from tests.forensics.demo.test_play import judged

TRUE = judged(Relation.PERTURBED, ("ada",), "perturbed", ("ada",))
ACCUSED = judged(Relation.DERIVED, ("ada",), "perturbed", ("ada",))


@pytest.fixture
def folders(monkeypatch) -> list[Path]:
    """Plays two rows at once, and remembers where it was told to work."""
    seen: list[Path] = []

    def prepare(folder, *, say):
        folder.mkdir(parents=True, exist_ok=True)
        seen.append(folder)

    monkeypatch.setattr(play, "prepare", prepare)
    monkeypatch.setattr(play, "play", lambda ready, *, home: iter([TRUE, TRUE]))
    return seen


def test_once_prints_and_leaves_nothing_behind(folders, capsys):
    assert main(["demo", "--once"]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 copies caught, 0 of 0 honest miners accused" in out
    assert not folders[0].exists()


def test_without_once_models_and_registry_stay_under_the_home(folders, own_home, capsys):
    assert main(["demo"]) == 0
    assert folders == [own_home / "demo"]
    assert folders[0].exists()
    assert "forensics compare" in capsys.readouterr().err  # what to try next


def test_a_false_accusation_fails_the_demo(folders, monkeypatch, capsys):
    monkeypatch.setattr(play, "play", lambda ready, *, home: iter([TRUE, ACCUSED]))
    assert main(["demo", "--once", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["commitments"]
    assert [row["accused"] for row in rows] == [False, True]
    assert rows[0]["of"] == [{"label": "ada", "weight": 1.0}]


def test_the_picture_is_drawn(folders, tmp_path):
    assert main(["demo", "--once", "--picture", str(tmp_path / "demo.svg")]) == 0
    assert "copies caught" in (tmp_path / "demo.svg").read_text().replace("&#160;", " ")
