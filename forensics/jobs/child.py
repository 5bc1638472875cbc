"""The worker that ``serve`` runs beside itself: a child process, replaced when it dies, gone when the server is.

A thread would share Python's lock with the requests, and fingerprints would be felt in every answer. The child's stdin
is a pipe from the server: when the server is killed, however, the pipe closes and the worker ends by itself, so that
the next server finds the home free.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

SHORTEST, LONGEST = 0.5, 30.0  # seconds between a death and the next start
STEADY = 15.0  # seconds alive after which the next death is taken for the first
GRACE = 20.0


class Child:
    """A supervised ``forensics worker``.

    Args:
        environment: Variables that make its settings; secrets among them.
        say: Told when it died.
        command: What is run.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        say: Callable[[str], None],
        command: tuple[str, ...] = (sys.executable, "-m", "forensics", "worker", "--until-stdin-ends"),
    ) -> None:
        self._environment, self._say, self._command = dict(environment), say, command
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="worker-child", daemon=True)

    def __enter__(self) -> Child:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()  # ends it in order
        self._thread.join(GRACE)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    def _keep(self) -> None:
        pause = SHORTEST
        while not self._stop.is_set():
            lived = self._one()
            if self._stop.is_set():
                return
            pause = SHORTEST if lived else min(2 * pause, LONGEST)
            self._say(f"the worker ended; starting another in {pause:g} s")
            self._stop.wait(pause)

    def _one(self) -> bool:
        """Run it to its end; whether it lived for a while."""
        alive = threading.Event()
        timer = threading.Timer(STEADY, alive.set)
        timer.daemon = True
        timer.start()
        environment = {**os.environ, **self._environment}
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - our own program
        self._process = process
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        timer.cancel()
        return alive.is_set()
