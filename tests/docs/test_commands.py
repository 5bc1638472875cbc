"""The commands in the documentation work as printed, page by page, in an empty home."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from forensics.demo import decoder, tricks
from forensics.demo.stage import Stage, save
from tests.docs.pages import ROOT, run_page

PAGES = [ROOT / "docs" / "user-guide.md", ROOT / "docs" / "operator-guide.md"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A working folder with the checkpoints that the pages talk about."""
    desk = tmp_path_factory.mktemp("desk")
    tokenizer = decoder.make_tokenizer()
    base = decoder.train(decoder.Lesson(("manual",), steps=40), tokenizer)
    rival = decoder.train(decoder.Lesson(("network",), steps=25, rate=1e-3, order=1), tokenizer, parent=base)
    better = decoder.train(decoder.Lesson(("numbers",), steps=25, rate=1e-3, order=2), tokenizer, parent=rival)
    stage = Stage({}, tokenizer, None, desk)
    save(base, desk / "base", stage)
    save(rival, desk / "rival", stage)
    save(better, desk / "better", stage)
    save(tricks.cast(rival, torch.float32), desk / "reupload", stage, shards=2)
    save(tricks.permuted(tricks.rotated(rival, seed=1), seed=2), desk / "disguised", stage)
    save(tricks.noisy(rival, 0.01, seed=3), desk / "noisy", stage)
    return desk


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_prints_what_the_page_says(page, desk, environment):
    run_page(page, desk, environment, seconds=800)


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
