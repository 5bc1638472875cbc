"""The page on results and overfitting, run as printed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.detectors.overfit.fields import field
from tests.docs.test_commands import MARK, ROOT, environment, steps
from tests.forensics.cli.test_overfit import write

PAGE = ROOT / "docs" / "overfit.md"
__all__ = ["environment"]


@pytest.fixture
def desk(tmp_path) -> Path:
    """The table that the page talks about: one miner learned, one validator leaked to it."""
    results, truth = field(2, miners=24, items=300, cheats=1, lift=0.4, validators=3, tracers=40)
    names = tuple("mallory" if h in truth.cheats else h for h in results.hotkeys)
    desk = tmp_path / "desk"
    desk.mkdir()
    named = {**vars(results), "hotkeys": names, "validators": ("north", "south", "west")}
    write(desk / "results.csv", type(results)(**named))
    return desk


@pytest.mark.timeout(280)
def test_every_command_of_the_page_prints_what_the_page_says(desk, environment):
    script = "".join(f"{step.command}\nrc=$?; printf '{MARK}'; (exit $rc)\n" for step in steps(PAGE))
    done = subprocess.run(
        ["bash", "-c", script], cwd=desk, env=environment, capture_output=True, text=True, timeout=270, check=False
    )
    printed = done.stdout.split(MARK)
    assert len(printed) == len(steps(PAGE)) + 1
    for step, output in zip(steps(PAGE), printed, strict=False):
        pieces = [" ".join(piece.split()) for line in step.expected for piece in line.split("...")]
        pattern = ".*".join(map(re.escape, pieces))
        assert re.search(pattern, " ".join(output.split())), f"$ {step.command}\n{output}\n{done.stderr[-2000:]}"
