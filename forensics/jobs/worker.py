"""A worker: a queue, the schedule that keeps it supplied, and an orderly end.

What has to happen by itself is a list of tasks; the worker only starts them, beats, and stops when it is told to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .feeding import Feeder, Reaper
from .inline import InlineJobs
from .interface import Jobs
from .tasks import Board, Say, Schedule, Task
from .workers import BEAT, Workers

FEED_SECONDS = 0.3
MEND_SECONDS = 60.0
REAP_SECONDS = 5.0


@dataclass(frozen=True)
class Crew:
    """What a worker is made of.

    Attributes:
        name: The worker's, the same after every start.
        jobs: Its queue.
        feeder: Keeps the queue supplied.
        workers: Heartbeats.
        board: Rows of the tasks.
        tasks: What else is done every so often.
        beat: Seconds between heartbeats.
    """

    name: str
    jobs: Jobs
    feeder: Feeder
    workers: Workers
    board: Board
    tasks: Sequence[Task] = ()
    beat: float = BEAT.total_seconds()

    def every_task(self, wake: threading.Event) -> list[Task]:
        """The queue's own tasks, and the rest."""
        reaper = Reaper(self.workers, self.jobs, self.name)
        return [
            Task("beat", self.beat, lambda: self.workers.beat(self.name)),
            Task("feed", FEED_SECONDS, self.feeder.feed, wake=wake, rest=FEED_SECONDS / 10),
            Task("reap", min(REAP_SECONDS, self.beat), reaper.reap),
            Task("mend", MEND_SECONDS, self.feeder.mend, alone=True),
            *self.tasks,
        ]


def run(crew: Crew, stop: threading.Event, *, say: Say, wake: threading.Event | None = None) -> None:
    """Work until ``stop`` is set.

    Args:
        crew: The worker.
        stop: Ends it.
        say: Told what a person should know.
        wake: Set when an entry may have become due.
    """
    schedule = Schedule(crew.every_task(wake or threading.Event()), crew.board, say=say)
    crew.workers.beat(crew.name)
    crew.jobs.start()
    try:
        schedule.start()
        stop.wait()
    finally:
        schedule.stop()
        crew.jobs.stop()
        crew.workers.leave(crew.name)


def once(tasks: Sequence[Task], feeder: Feeder, jobs: InlineJobs, *, say: Say) -> int:
    """Every task once, and everything that is due in between; how many turns of work that were.

    Args:
        tasks: In order; the work is done before the last of them, which publishes.
        feeder: Hands out to ``jobs``.
        jobs: A queue in this thread.
        say: Told of problems.
    """
    *before, last = tasks
    for task in before:
        _try(task.name, task.run, say)
    done = 0
    while feeder.feed():
        done += jobs.work()
    _try(last.name, last.run, say)
    return done


def _try(name: str, what: Callable[[], object], say: Say) -> None:
    from ..errors import ForensicsError

    try:
        what()
    except ForensicsError as error:
        say(f"{name}: {error}")
