"""What a job queue offers, and the one description of the work that every queue carries out.

The queue is only the engine: what is to be done stands in the entries, so a queue that lost its memory is filled again
from them. ``inline`` does the work in the caller's thread, ``dbos`` durably, on any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from ..entries.claimed import OPEN, Entry, State

Document = dict[str, Any]
"""What a step returns: JSON."""
Run = Callable[[str, Callable[[int, int], Document], int, int], Document]
"""Runs a named step of (entry id, turn), durably or not."""


class Kind(StrEnum):
    """What is to be done in a turn."""

    PREPARE = "prepare"  # fetch and fingerprint
    CONCLUDE = "conclude"  # identify, detect, judge, publish


@dataclass(frozen=True)
class Work:
    """A turn of an entry.

    Attributes:
        kind: What is to be done.
        entry: Internal id.
        turn: Which turn.
        host: Where the files come from; so many of one host are fetched at once.
        priority: Less is sooner; 1 to 2^31 - 1.
    """

    kind: Kind
    entry: int
    turn: int
    host: str
    priority: int

    @property
    def id(self) -> str:
        """The same for the same work, so that handing it out twice is handing it out once."""
        return f"{self.kind}-{self.entry}-{self.turn}"


class Steps(Protocol):
    """The steps, each a plain function of (entry id, turn) that may be repeated."""

    def fetch(self, entry: int, turn: int) -> Document: ...  # noqa: D102
    def fingerprint(self, entry: int, turn: int) -> Document: ...  # noqa: D102
    def identify(self, entry: int, turn: int) -> Document: ...  # noqa: D102
    def detect(self, entry: int, turn: int) -> Document: ...  # noqa: D102
    def judge(self, entry: int, turn: int) -> Document: ...  # noqa: D102
    def publish(self, entry: int, turn: int) -> Document: ...  # noqa: D102


class Jobs(Protocol):
    """A queue of work."""

    def start(self) -> None:
        """Begin to work; what was under way when this worker last ended is taken up again."""

    def enqueue(self, work: Work) -> None:
        """Hand work out; the same work twice is once."""

    def alive(self, ids: Iterable[str]) -> set[str]:
        """Which of these are queued or under way."""

    def take_over(self, workers: Iterable[str]) -> int:
        """Queue again what these dead workers had under way; how much that was."""

    def stop(self) -> None:
        """Take no more work and leave; what is under way is taken up again later."""


def carry_out(kind: Kind, steps: Steps, run: Run, entry: int, turn: int) -> None:
    """The work of a turn: its steps in order, until one says that there is nothing more to do."""
    order = {
        Kind.PREPARE: (steps.fetch, steps.fingerprint),
        Kind.CONCLUDE: (steps.identify, steps.detect, steps.judge, steps.publish),
    }
    for step in order[kind]:
        if not run(step.__name__, step, entry, turn).get("go"):
            return


FRESH = 1 << 29  # priorities below are of claims nobody worked on yet, in the order of their blocks


def work_of(entry: Entry, host: str) -> Work:
    """The work that an entry's turn is."""
    kind = Kind.PREPARE if entry.state in (*OPEN, State.WAITING) else Kind.CONCLUDE
    later = FRESH if entry.attempts else 0
    return Work(kind, entry.id, entry.turn, host, 1 + later + min(entry.claimed.block, FRESH - 2))
