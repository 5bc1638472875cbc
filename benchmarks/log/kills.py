"""kill -9 at random moments while two processes append: nothing acknowledged may be lost, and nothing may fork.

Whoever was killed is started again, as a service is: the newcomer recomputes the whole tree while the other goes on
appending, and compares it with the newest checkpoint that each writer was ever given. In the end every acknowledged
entry must have the number that was acknowledged, and every checkpoint that was given out must be of this tree.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from attest.log import Log, open_checkpoint, verify_receipt
from attest.log.merkle import verify_consistency

from . import writer
from .endurance import SEED, stored

_FORK = multiprocessing.get_context("fork")
SECONDS = 1200  # a writer's start audits the whole log, and a busy machine is no failure
LONGEST = 0.1  # seconds from "both append" to the kill


@dataclass
class Story:
    """What one writer said before it was killed; a last line cut short was not said."""

    name: str
    lines: list[dict[str, object]] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> Story:
        """The story in a writer's file."""
        whole = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return cls(file.name, [json.loads(line) for line in whole])

    @property
    def during(self) -> str:
        """What the writer was doing when it died."""
        last = next(iter(self.lines[-1]), "") if self.lines else ""
        return {"begins": "append", "signs": "checkpoint"}.get(last, "between")

    def acknowledged(self) -> Iterator[tuple[int, bytes]]:
        """Number and entry of everything that was acknowledged."""
        for line in self.lines:
            if "appended" in line:
                yield from zip(line["numbers"], writer.bodies(self.name, line["appended"]), strict=True)

    @property
    def newest(self) -> bytes:
        """The last checkpoint that was given out; empty when there was none."""
        return next((str(line["signed"]).encode() for line in reversed(self.lines) if "signed" in line), b"")

    def notes(self) -> Iterator[bytes]:
        """Every checkpoint that was given out."""
        yield from (str(line["signed"]).encode() for line in self.lines if "signed" in line)


class Pair:
    """Two writers on one log, replaced when they die."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self.ended: list[Story] = []
        self._started = 0
        self._running: list[tuple[multiprocessing.process.BaseProcess, Path]] = []

    def fill(self) -> None:
        """Start what is missing and wait until both append."""
        while len(self._running) < 2:
            said = self._folder / f"writer-{self._started:04d}"
            said.touch()
            self._started += 1
            known = [story.newest for story in self.stories() if story.newest]
            process = _FORK.Process(target=writer.main, args=(self._url, said.name, said, known))
            process.start()
            self._running.append((process, said))
        for process, said in self._running:
            _wait_until_it_appends(process, said)

    def kill(self, which: int) -> Story:
        """End one of them, at once and without warning; what it had said."""
        process, said = self._running.pop(which)
        process.kill()
        process.join()
        self.ended.append(Story.read(said))
        return self.ended[-1]

    def end(self) -> None:
        """End both."""
        while self._running:
            self.kill(0)

    def stories(self) -> list[Story]:
        """What everyone said so far."""
        return [*self.ended, *(Story.read(said) for _, said in self._running)]


def kill_and_check(url: str, folder: Path, *, kills: int, seed: int = SEED) -> dict[str, float]:
    """Kill so many times, check after each and in the end; raises ``AssertionError`` on the first thing lost.

    Args:
        url: An empty database.
        folder: Where the writers write down what they were told.
        kills: How often.
        seed: Draws the moments and the victims.
    """
    rng = random.Random(seed)
    pair, during = Pair(url, folder), Counter[str]()
    began = time.perf_counter()
    try:
        for _ in range(kills):
            pair.fill()
            time.sleep(rng.uniform(0, LONGEST))
            during[pair.kill(rng.randrange(2)).during] += 1
        pair.fill()
    finally:
        pair.end()
    counts = check(url, pair.stories(), rng)
    return {
        "kills": kills,
        **{f"killed_during_{what}": during[what] for what in ("append", "checkpoint", "between")},
        **counts,
        "seconds": time.perf_counter() - began,
    }


def _wait_until_it_appends(process: multiprocessing.process.BaseProcess, said: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while b'"appended"' not in _beginning(said):
        assert process.is_alive(), "a writer could not start"
        assert time.monotonic() < deadline, "a writer took too long to start"
        time.sleep(0.005)


def _beginning(said: Path) -> bytes:
    with said.open("rb") as file:
        return file.read(4096)


def check(url: str, stories: list[Story], rng: random.Random) -> dict[str, float]:
    """Compare a log with everything that its writers were told; raises ``AssertionError`` where they differ."""
    told = [entry for story in stories for entry in story.acknowledged()]
    notes = {note for story in stories for note in story.notes()}
    with stored(url) as storage:
        log = Log(storage, writer.SIGNER, origin=writer.ORIGIN, known=notes)
        with storage.reading() as reader:
            held = {leaf.index: leaf.body for leaf in reader.leaves(0, reader.size())}
        lost = [number for number, body in told if held.get(number) != body]
        assert not lost, f"acknowledged and lost: {lost[:5]}"
        assert len({number for number, _ in told}) == len(told), "one number was given twice"
        assert len(set(held.values())) == len(held), "one entry is in the log twice"
        tree = open_checkpoint(log.checkpoint(), log=log.key).checkpoint
        assert tree.size == log.size() == len(held)
        for number, body in rng.sample(told, min(50, len(told))):
            assert verify_receipt(log.prove(number).encode(), log=log.key).leaf == body
        roots = sorted({(c.size, c.root) for c in (open_checkpoint(n, log=log.key).checkpoint for n in notes)})
        assert len({size for size, _ in roots}) == len(roots), "two roots were signed for one size"
        for (old, old_root), (new, new_root) in pairwise(roots):
            verify_consistency(old, new, log.prove_consistency(old, new), old_root, new_root)
        assert log.evidence() == ()
    return {"acknowledged": len(told), "leaves": len(held), "checkpoints_given_out": len(roots), "lost": 0, "forks": 0}
