"""What anybody can do with what the service hands out: verify the snapshot offline, recompute a verdict's evidence.

The demo does both itself, with the commands that it prints, so that they are known to work.
"""

from __future__ import annotations

import json
import shlex
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forensics.client import Reading
from forensics.demo import service
from forensics.demo.play import Show, hub_of
from forensics.demo.stage import BASE
from forensics.demo.tape import NETUID, NETWORK
from forensics.demo.verdict import Judged
from forensics.errors import Exit

SNAPSHOT, EVIDENCE = "snapshot.json", "evidence.zip"
FIRST = 4  # lines shown of what a command said


@dataclass(frozen=True)
class Step:
    """Something to do or to look at.

    Attributes:
        title: What for.
        command: As typed in a shell; empty when there is nothing to type.
        said: The first lines of what it said when the demo did it.
        good: Whether that was as it should be.
    """

    title: str
    command: str = ""
    said: tuple[str, ...] = ()
    good: bool = True


def next_steps(show: Show, judged: Sequence[Judged], reading: Reading, folder: Path) -> list[Step]:
    """Read, verify and replay, and say where the pages are.

    Args:
        show: The service.
        judged: What was read.
        reading: How it was read.
        folder: Where snapshot and evidence are put.
    """
    url = show.running.url
    made = [
        Step("What the service answers", f"{url}/docs"),
        Step("The signed snapshot", f"curl {url}/v1/netuids/{NETUID}/verdicts"),
        _read(show),
    ]
    if reading.snapshot is not None:
        (folder / SNAPSHOT).write_bytes(reading.snapshot.raw)
        made.append(_verified(show, folder / SNAPSHOT))
    accused = next((one for one in judged if one.caught and one.answer.evidence), None)
    if accused is not None:
        made.append(_replayed(show, accused, folder))
    return made


def _read(show: Show) -> Step:
    arguments = ["verdicts", "--url", show.running.url, "--service-key", show.running.key]
    return _done(show, "Read it as a validator does", [*arguments, "--network", NETWORK, *_place(show)], Exit.CLEAN)


def _place(show: Show) -> list[str]:
    return ["--netuid", str(NETUID), "--genesis", show.tape.recording.genesis]


def _verified(show: Show, snapshot: Path) -> Step:
    arguments = ["verify", str(snapshot), "--trust", str(show.running.key_file), *_place(show)]
    return _done(show, "Verify it offline", arguments, Exit.CLEAN)


def _replayed(show: Show, one: Judged, folder: Path) -> Step:
    """Evidence of full depth speaks of weights, so they are given: the candidate's, the reference's, the base's."""
    evidence = folder / EVIDENCE
    shutil.copyfile(show.office.path_of(str(one.answer.evidence)), evidence)
    with zipfile.ZipFile(evidence) as bundle:
        weights = json.loads(bundle.read("request.json"))["weights"]
    by_name = {m.name: hub_of(folder) / m.repo / m.revision for m in show.miners} | {BASE: folder / BASE}
    paths = {"candidate": by_name[one.miner.name], "reference": by_name[one.answer.of[0][0]], "base": by_name[BASE]}
    arguments = ["replay", str(evidence)]
    for side in ("candidate", "reference", "base"):
        if side in weights:
            arguments += [f"--{side}", str(paths[side])]
    return _done(show, f"Recompute the evidence against {one.miner.name}", arguments, Exit.FINDING)


def _done(show: Show, title: str, arguments: list[str], expected: int) -> Step:
    """Do it and say what came of it."""
    done = service.ask(show.running.home, *arguments)
    lines = [line for line in (done.stdout.strip() or done.stderr.strip()).splitlines() if line.strip()][:FIRST]
    return Step(title, shlex.join(["forensics", *arguments]), tuple(lines), done.returncode == expected)
