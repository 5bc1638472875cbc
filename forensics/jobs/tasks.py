"""What a worker does every so often: a schedule of named tasks, each in a thread of its own, with jitter.

A task that fails is noted and comes again at its next time; none can stop another. Where one worker at a time is enough
(asking the chain, rotating epochs), the task's row in the database is claimed for the length of a period first. A claim
is not a lock: who dies with it costs one period, and every task is safe to run twice.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Engine, select, update
from sqlalchemy.exc import IntegrityError

from ..errors import ForensicsError
from ..place import Clock, now
from ..store.engine import reading, writing
from ..store.entries import TaskRow

JITTER = 0.1  # of the period, so that many workers do not ask at the same moment
PROBLEM_LIMIT = 400
Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """Something done every so often.

    Attributes:
        name: Stable; the key of its row.
        every: Seconds from its end to its next start.
        run: What is done; raises where it could not be.
        alone: Whether one worker at a time is enough.
        wake: Set by whoever wants it done now.
        rest: Seconds between two runs, however often it is woken.
    """

    name: str
    every: float
    run: Callable[[], object]
    alone: bool = False
    wake: threading.Event | None = None
    rest: float = 0.0


class Board:
    """The tasks' rows: whose turn a task is, and how it went last.

    Args:
        engine: The database.
        worker: This worker's name.
        clock: The time.
    """

    def __init__(self, engine: Engine, worker: str, *, clock: Clock = now) -> None:
        self._engine, self._worker, self._clock = engine, worker, clock

    def claim(self, task: Task) -> bool:
        """Take a task that is due; false where another worker has it."""
        at = self._clock()
        with reading(self._engine) as session:
            row = session.get(TaskRow, task.name)
            if row is not None and row.due_at > at:
                return False
        with writing(self._engine) as session:
            if row is None:
                try:
                    with session.begin_nested():
                        session.add(TaskRow(name=task.name, due_at=at, worker=None))
                except IntegrityError:
                    return False
            statement = (
                update(TaskRow)
                .where(TaskRow.name == task.name, TaskRow.due_at <= at)
                .values(due_at=at + timedelta(seconds=task.every), worker=self._worker)
            )
            return bool(getattr(session.execute(statement), "rowcount", 0))

    def note(self, task: Task, problem: str | None) -> None:
        """Write down how it went."""
        with writing(self._engine) as session:
            values = {"ran_at": self._clock(), "problem": problem and problem[:PROBLEM_LIMIT]}
            session.execute(update(TaskRow).where(TaskRow.name == task.name).values(**values))

    def problems(self) -> dict[str, str]:
        """Tasks whose last run failed, and why."""
        with reading(self._engine) as session:
            rows = session.execute(select(TaskRow.name, TaskRow.problem).where(TaskRow.problem.is_not(None)))
            return {name: str(problem) for name, problem in rows}


class Schedule:
    """Runs tasks until it is stopped.

    Args:
        tasks: The tasks.
        board: Their rows.
        say: Told of a problem when it is new.
        draw: A number from [0, 1), for jitter.
    """

    def __init__(
        self, tasks: Sequence[Task], board: Board, *, say: Say, draw: Callable[[], float] = random.random
    ) -> None:
        self._tasks, self._board, self._say, self._draw = tasks, board, say, draw
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._told: dict[str, str | None] = {}

    def start(self) -> None:
        """Start every task's thread."""
        for task in self._tasks:
            thread = threading.Thread(target=self._keep, args=(task,), name=f"task-{task.name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, seconds: float = 3.0) -> None:
        """Let running tasks end, for at most so long in all."""
        self._stop.set()
        for task in self._tasks:
            if task.wake is not None:
                task.wake.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def once(self, task: Task) -> bool:
        """Run a task if it is this worker's turn; whether it ran well."""
        try:
            if task.alone and not self._board.claim(task):
                return False
            task.run()
            problem = None
        except ForensicsError as error:
            problem = str(error)
        except Exception as error:  # a task must not end its thread, whatever it meets
            problem = f"{type(error).__name__}: {error}"
        self._report(task, problem)
        return problem is None

    def _keep(self, task: Task) -> None:
        while not self._stop.is_set():
            self.once(task)
            pause = task.every * (1 + JITTER * (2 * self._draw() - 1))
            if task.wake is None:
                self._stop.wait(pause)
            elif not self._stop.wait(task.rest):
                task.wake.wait(max(0.0, pause - task.rest))
                task.wake.clear()

    def _report(self, task: Task, problem: str | None) -> None:
        if problem != self._told.get(task.name) and problem is not None:
            self._say(f"{task.name}: {problem}")
        self._told[task.name] = problem
        if task.alone:
            try:
                self._board.note(task, problem)
            except ForensicsError as error:
                self._say(f"{task.name}: {error}")
