"""Durable work on DBOS (https://docs.dbos.dev): every finished step is on record, and a worker that dies is replaced.

Measured, and therefore so (DBOS 3.4):

- On SQLite its file must be in WAL mode before launch, and there may be one worker process: limits over all workers
  hold on PostgreSQL only. Its tables lie in a file beside ours, for its transactions know nothing of ours.
- Work is resumed by executor id and application version, so both are stable and explicit: a version drawn from the
  source would strand everything that is under way at every change of the code.
- Nothing notices a lost worker but the heartbeat of ours (``workers``); ``take_over`` queues its work again.
- The serializer is portable JSON: what is read back must not be able to run code, as a pickle can.

The import takes more than a second, so only a worker imports this module.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetEnqueueOptions, SetWorkflowID
from dbos._serialization import DBOSPortableJSON
from sqlalchemy.engine import make_url

from .interface import Document, Kind, Steps, Work, carry_out

NAME = "forensics"
VERSION = "1"  # raised when work under way could not be continued by the new code
SCHEMA = "forensics_jobs"
POLL_SECONDS = 0.1
PER_HOST = 4  # turns that fetch from one host at once, over all workers
TRIES, PAUSE, FACTOR = 5, 0.5, 2.0  # of a step whose database was away
ALIVE = ("ENQUEUED", "PENDING", "DELAYED")


class DbosJobs:
    """A durable queue.

    Args:
        steps: The steps.
        database: URL of the service's database.
        worker: This worker's name, the same after every start.
        concurrency: Turns under way at once in this worker.
        per_host: Turns that fetch from one host at once.
    """

    def __init__(
        self, steps: Steps, *, database: str, worker: str, concurrency: int = 2, per_host: int = PER_HOST
    ) -> None:
        self._steps, self._worker = steps, worker
        self._concurrency, self._per_host = concurrency, per_host
        self._url = _beside(database)
        self._work: Callable[[str, int, int], None] | None = None

    def start(self) -> None:
        """Begin to work; what was under way when this worker last ended is taken up again."""
        os.environ.setdefault("DBOS__CLOUD", "false")
        config: DBOSConfig = {
            "name": NAME,
            "system_database_url": self._url,
            "dbos_system_schema": SCHEMA,
            "application_version": VERSION,
            "executor_id": self._worker,
            "serializer": DBOSPortableJSON,
            "log_level": "ERROR",
            "sys_db_pool_size": max(8, 2 * self._concurrency + 6),
            "notification_listener_polling_interval_sec": 5.0,
        }
        DBOS(config=config)
        self._work = DBOS.workflow(name="turn", max_recovery_attempts=None)(_turn(self._steps))
        DBOS.launch()
        common: dict[str, Any] = {"polling_interval_sec": POLL_SECONDS, "on_conflict": "always_update"}
        DBOS.register_queue(
            Kind.PREPARE, worker_concurrency=self._concurrency, partition_concurrency=self._per_host, **common
        )
        DBOS.register_queue(Kind.CONCLUDE, worker_concurrency=self._concurrency, **common)

    def enqueue(self, work: Work) -> None:
        """Hand work out; the same work twice is once."""
        if self._work is None:
            raise RuntimeError("start() comes first")
        host = work.host if work.kind is Kind.PREPARE else None
        with SetWorkflowID(work.id), SetEnqueueOptions(priority=work.priority, queue_partition_key=host):
            DBOS.enqueue_workflow(work.kind, self._work, str(work.kind), work.entry, work.turn)

    def alive(self, ids: Iterable[str]) -> set[str]:
        """Which of these are queued or under way."""
        wanted = list(ids)
        if not wanted:
            return set()
        found = DBOS.list_workflows(workflow_ids=wanted, status=list(ALIVE), load_input=False, load_output=False)
        return {status.workflow_id for status in found}

    def take_over(self, workers: Iterable[str]) -> int:
        """Queue again what these dead workers had under way."""
        return len(DBOS._recover_pending_workflows([w for w in workers if w != self._worker]))

    def stop(self) -> None:
        """Take no more work and leave; what is under way is taken up again later."""
        DBOS.destroy(destroy_registry=True)
        self._work = None


def _turn(steps: Steps) -> Callable[[str, int, int], None]:
    """The one workflow there is. DBOS marks the function it is given, so it must be a plain one."""

    def turn_of(kind: str, entry: int, turn: int) -> None:
        carry_out(Kind(kind), steps, _run, entry, turn)

    return turn_of


def _run(name: str, step: Callable[[int, int], Document], entry: int, turn: int) -> Document:
    options: Any = {
        "name": name,
        "retries_allowed": True,
        "max_attempts": TRIES,
        "interval_seconds": PAUSE,
        "backoff_rate": FACTOR,
    }
    return DBOS.run_step(options, step, entry, turn)


def _beside(database: str) -> str:
    """Where DBOS keeps its tables: a file beside ours in WAL mode, or a schema in the same PostgreSQL database."""
    url = make_url(database)
    if url.get_backend_name() != "sqlite":
        return url.set(drivername="postgresql").render_as_string(hide_password=False)
    path = Path(str(url.database))
    beside = path.with_name(f"{path.stem}.jobs.db")
    connection = sqlite3.connect(beside, timeout=30)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    return f"sqlite:///{beside}"
