"""The page on results and overfitting, run as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.detectors.overfit.fields import field
from tests.docs.pages import ROOT, run_page
from tests.forensics.cli.test_overfit import write

PAGE = ROOT / "docs" / "overfit.md"


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
    run_page(PAGE, desk, environment, seconds=270)
