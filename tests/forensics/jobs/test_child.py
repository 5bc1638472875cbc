from __future__ import annotations

import os
import signal
import sys
import time

from forensics.jobs.child import Child

SECONDS = 30
SLEEPER = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")


def until(what) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_that_dies_is_replaced_and_the_last_one_ends_with_the_server():
    said: list[str] = []
    with Child({}, say=said.append, command=SLEEPER) as child:
        until(lambda: child.pid is not None)
        first = child.pid
        os.kill(first, signal.SIGKILL)
        until(lambda: child.pid != first)
        last = child.pid
    assert len(said) == 1
    until(lambda: not os.path.exists(f"/proc/{last}"))
