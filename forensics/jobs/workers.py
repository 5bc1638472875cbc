"""Who works: names that last, a heartbeat, and who is taken for dead.

A worker's name is a slot of its machine, held by a lock on a file that the system lets go when the process dies. So a
worker that is started again finds its own work, and two can never have one name.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine, delete, select

from ..errors import Unavailable
from ..place import Clock, now
from ..store.engine import reading, writing
from ..store.entries import WorkerRow

BEAT = timedelta(seconds=5)
DEAD = timedelta(seconds=30)  # without a beat
SLOTS = 64  # workers of one home on one machine


@contextmanager
def slot(home: Path, *, most: int = SLOTS) -> Iterator[str]:
    """A name that no other live worker of this home and machine has.

    Args:
        home: The service's folder.
        most: How many workers there may be; 1 on SQLite.

    Raises:
        Unavailable: All are taken.
    """
    folder = home / "workers"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(most):
        handle = os.open(folder / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        try:
            yield f"{socket.gethostname()[:80]}-{number}"
        finally:
            os.close(handle)
        return
    raise Unavailable(
        "another worker works on this home" if most == 1 else "too many workers on this home",
        where=str(home),
        expected="one worker on SQLite" if most == 1 else f"at most {most}",
        remedy="Stop it first, or use PostgreSQL.",
    )


class Workers:
    """The heartbeat table.

    Args:
        engine: The database.
        clock: The time.
        dead: Silence after which a worker is taken for dead.
    """

    def __init__(self, engine: Engine, *, clock: Clock = now, dead: timedelta = DEAD) -> None:
        self._engine, self._clock, self._dead = engine, clock, dead

    def beat(self, name: str) -> None:
        """Say that a worker is alive."""
        at = self._clock()
        with writing(self._engine) as session:
            row = session.get(WorkerRow, name)
            if row is None:
                session.add(WorkerRow(name=name, started_at=at, beat_at=at))
            else:
                row.beat_at = at

    def silent(self, *, but: str) -> list[str]:
        """Workers that were not heard of for too long."""
        query = select(WorkerRow.name).where(WorkerRow.beat_at < self._clock() - self._dead, WorkerRow.name != but)
        with reading(self._engine) as session:
            return list(session.scalars(query.order_by(WorkerRow.name)))

    def bury(self, names: list[str]) -> None:
        """Forget dead workers whose work was taken over; one that still lives says so with its next beat."""
        with writing(self._engine) as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name.in_(names)))

    def leave(self, name: str) -> None:
        """Forget a worker that goes in order."""
        self.bury([name])
