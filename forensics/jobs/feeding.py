"""Between the entries and the queue: hand out what is due, take over from the dead, hand out again what was lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ..entries.claimed import Claimed
from ..entries.entries import Entries
from ..place import Clock, now
from .interface import Jobs, Kind, Work, work_of
from .workers import Workers

LOST = timedelta(minutes=10)
"""Handed out, unchanged for so long, and the queue knows nothing of it: handed out again."""


class Feeder:
    """Keeps a queue supplied.

    Args:
        entries: What is to be done.
        jobs: Who does it.
        host: Where an entry's files come from.
        clock: The time.
        lost: When work that the queue does not know is taken for lost.
    """

    def __init__(
        self,
        entries: Entries,
        jobs: Jobs,
        *,
        host: Callable[[Claimed], str],
        clock: Clock = now,
        lost: timedelta = LOST,
    ) -> None:
        self._entries, self._jobs, self._host, self._clock, self._lost = entries, jobs, host, clock, lost

    def feed(self) -> int:
        """Hand out what is due. Queued first and noted then: who dies in between queues the same work once more."""
        due = self._entries.due()
        for entry in due:
            self._jobs.enqueue(work_of(entry, self._host(entry.claimed)))
            self._entries.handed_out(entry)
        return len(due)

    def mend(self) -> int:
        """Hand out again what the queue lost, such as with a queue file that was not in the backup."""
        stale = self._entries.unfinished(older=self._clock() - self._lost)
        ids = {Work(kind, e.id, e.turn, "", 1).id: e.id for e in stale for kind in Kind}
        busy = {ids[name] for name in self._jobs.alive(ids)}
        return sum(self._entries.again(entry) for entry in stale if entry.id not in busy)


class Reaper:
    """Takes over from workers that are silent.

    Args:
        workers: Heartbeats.
        jobs: The queue.
        worker: This worker's name.
    """

    def __init__(self, workers: Workers, jobs: Jobs, worker: str) -> None:
        self._workers, self._jobs, self._worker = workers, jobs, worker

    def reap(self) -> int:
        """Queue the work of the dead again, then forget them; who dies in between leaves it to the next."""
        dead = self._workers.silent(but=self._worker)
        if not dead:
            return 0
        taken = self._jobs.take_over(dead)
        self._workers.bury(dead)
        return taken
