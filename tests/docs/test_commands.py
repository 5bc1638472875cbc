"""The commands in the documentation work as printed: every ``console`` block is run, page by page, in an empty home.

In a block, lines that start with ``$ `` are typed; the others must appear in what is printed, in that order, where
``...`` stands for anything. A block whose fence says ``console not-run`` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from forensics.demo import decoder, tricks
from forensics.demo.stage import Stage, save

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "user-guide.md", ROOT / "docs" / "operator-guide.md"]
FENCE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARK = "\x1e"


@dataclass
class Step:
    """One typed command and the lines that are printed under it."""

    command: str
    expected: list[str]


def steps(page: Path) -> list[Step]:
    found: list[Step] = []
    for block in FENCE.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            elif line.strip():
                found[-1].expected.append(line.strip())
    return found


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


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    shim = tmp_path / "bin" / "forensics"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from forensics.cli.main import run; run()" "$@"\n')
    shim.chmod(0o755)
    return os.environ | {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "FORENSICS_HOME": str(tmp_path / "home"),
        "TERM": "dumb",
        "COLUMNS": "100",
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_prints_what_the_page_says(page, desk, environment):
    script = "".join(f"{step.command}\nrc=$?; printf '{MARK}'; (exit $rc)\n" for step in steps(page))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=desk,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
    )
    printed = done.stdout.split(MARK)
    for step, output in zip(steps(page), printed, strict=False):
        pieces = [" ".join(piece.split()) for line in step.expected for piece in line.split("...")]
        pattern = ".*".join(map(re.escape, pieces))
        assert re.search(pattern, " ".join(output.split())), f"$ {step.command}\n{output}\n{done.stderr[-2000:]}"
    assert len(printed) == len(steps(page)) + 1


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
