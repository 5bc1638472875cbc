"""The commands of a page, run as printed.

In a ``console`` block, lines that start with ``$ `` are typed, and so are those after them that start with ``> ``, as a
shell shows where a command goes on; the others must appear in what is printed, in order, where ``...`` stands for
anything. A block whose fence says ``console not-run`` is left out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARK = "\x1e"


@dataclass
class Step:
    """One typed command and the lines that are printed under it."""

    command: str
    expected: list[str]


def steps(page: Path) -> list[Step]:
    """The commands of a page in order."""
    found: list[Step] = []
    for block in FENCE.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            elif line.startswith("> "):
                found[-1].command += "\n" + line[2:]
            elif line.strip():
                found[-1].expected.append(line.strip())
    return found


def run_page(page: Path, desk: Path, environment: Mapping[str, str], *, seconds: float) -> None:
    """Every command of a page prints what the page says."""
    script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n"  # what a page starts does not outlive it
    script += "".join(f"{step.command}\nrc=$?; printf '{MARK}'; (exit $rc)\n" for step in steps(page))
    done = subprocess.run(
        ["bash", "-c", script], cwd=desk, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    printed = done.stdout.split(MARK)
    for step, output in zip(steps(page), printed, strict=False):
        pieces = [" ".join(piece.split()) for line in step.expected for piece in line.split("...")]
        pattern = ".*".join(map(re.escape, pieces))
        assert re.search(pattern, " ".join(output.split())), f"$ {step.command}\n{output}\n{done.stderr[-2000:]}"
    assert len(printed) == len(steps(page)) + 1
