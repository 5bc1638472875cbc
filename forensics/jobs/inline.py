"""Work done in the caller's thread, one turn after another: for tests, and where one process is enough."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from .interface import Document, Steps, Work, carry_out


class InlineJobs:
    """A queue that works when it is told to.

    Args:
        steps: The steps.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._waiting: list[tuple[int, int, Work]] = []
        self._known: set[str] = set()

    def start(self) -> None:
        """Nothing is under way that was not finished."""

    def enqueue(self, work: Work) -> None:
        """Hand work out; the same work twice is once."""
        if work.id not in self._known:
            self._known.add(work.id)
            heapq.heappush(self._waiting, (work.priority, len(self._known), work))

    def alive(self, ids: Iterable[str]) -> set[str]:
        """Which of these are queued."""
        return {work.id for _, _, work in self._waiting} & set(ids)

    def take_over(self, workers: Iterable[str]) -> int:
        """There are no other workers."""
        return 0

    def stop(self) -> None:
        """Forget what is queued; the entries still know of it."""
        self._waiting.clear()
        self._known.clear()

    def work(self) -> int:
        """Do everything that is queued; how many turns that was."""
        done = 0
        while self._waiting:
            _, _, work = heapq.heappop(self._waiting)
            carry_out(work.kind, self._steps, _run, work.entry, work.turn)
            done += 1
        return done


def _run(name: str, step: Callable[[int, int], Document], entry: int, turn: int) -> Document:
    return step(entry, turn)
