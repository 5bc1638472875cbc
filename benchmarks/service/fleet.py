"""The service as processes: a server, and workers beside it; started again whenever one was killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine

from forensics.keys import Keys
from forensics.place import now
from forensics.settings import Settings, load
from forensics.store.engine import connect
from forensics.store.migrate import ensure

from .field import GENESIS, NETUID

READY_SECONDS = 300
GRACE = 30


@dataclass
class Fleet:
    """Processes of one home.

    Attributes:
        home: Folder of the service.
        database: URL; empty for SQLite in the home, with the worker that the server starts.
        workers: How many are started here; 0 on SQLite.
        port: Where the server listens.
        started: How many processes were started.
        started_at: When the last one was started or killed.
    """

    home: Path
    database: str
    workers: int
    port: int
    started: int = 0
    started_at: datetime = field(default_factory=now)
    _server: subprocess.Popen[bytes] | None = None
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the server answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Settings:
        """As the processes have them."""
        return load(home=self.home, database=self.database or None)

    def fill(self) -> None:
        """Start what is not running."""
        if self._server is None or self._server.poll() is not None:
            self._server = self._start("serve", "--port", str(self.port))
        self._workers = [w for w in self._workers if w.poll() is None]
        while len(self._workers) < self.workers:
            self._workers.append(self._start("worker"))

    def victims(self) -> list[tuple[str, int]]:
        """What can be killed now: kind and process id."""
        found = [("server", self._server.pid)] if self._server is not None and self._server.poll() is None else []
        if self._server is not None and not self.workers:
            found += [("worker", pid) for pid in _children(self._server.pid)]
        return found + [("worker", w.pid) for w in self._workers if w.poll() is None]

    def kill(self, pid: int) -> None:
        """End one at once and without warning."""
        self.started_at = now()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        for process in [self._server, *self._workers]:
            if process is not None and process.pid == pid:
                process.wait()

    def end(self) -> None:
        """End all in order; what does not end is killed."""
        running = [p for p in [self._server, *self._workers] if p is not None and p.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def until_served(self) -> None:
        """Wait until the server listens."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("the server did not start")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        self.started, self.started_at = self.started + 1, now()
        log = (self.home / "processes.log").open("ab")
        environment = {**os.environ, "FORENSICS_HOME": str(self.home), "OMP_NUM_THREADS": "1"}
        environment |= {"FORENSICS_DATABASE": self.database} if self.database else {}
        command = [sys.executable, "-m", "forensics", *arguments]
        try:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        finally:
            log.close()


@contextmanager
def fleet(home: Path, *, hub: Path, chain: Path, database: str = "", workers: int = 0) -> Iterator[Fleet]:
    """A running service on an empty home, ended on leaving.

    Args:
        home: Its folder.
        hub: Folder of repositories.
        chain: The recording that it follows.
        database: URL of an empty PostgreSQL database; SQLite when empty.
        workers: Worker processes; on SQLite the server has its own.
    """
    home.mkdir(parents=True, exist_ok=True)
    lines = [
        'network = "test"',
        f'genesis = "{GENESIS}"',
        f"netuid = {NETUID}",
        f'hub = "{hub.resolve().as_uri()}"',
        f'chain = "{chain.resolve()}"',
        "chain_seconds = 1.0",
        "hub_keep_free = 0",
    ]
    (home / "config.toml").write_text("\n".join(lines) + "\n")
    running = Fleet(home, database, workers, _free_port())
    with opened(running.settings):
        Keys.of(running.settings).service()  # made before the first kill, for the reader that has to know the key
    running.fill()
    try:
        running.until_served()
        yield running
    finally:
        running.end()


@contextmanager
def opened(settings: Settings) -> Iterator[Engine]:
    """The database of a home, at the newest schema."""
    engine = connect(settings.database_url, busy_seconds=120)
    ensure(engine)
    try:
        yield engine
    finally:
        engine.dispose()


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return _children_of_threads(pid)
    return [int(p) for p in text.split()] or _children_of_threads(pid)


def _children_of_threads(pid: int) -> list[int]:
    """A child that a thread started is listed under that thread."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(p) for p in file.read_text().split()]
        except OSError:
            continue
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
