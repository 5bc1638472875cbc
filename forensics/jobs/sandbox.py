"""Untrusted checkpoints are read in a child process with limits: what kills or hangs it kills no worker.

Children are forked from a clean server process that has loaded the numerical libraries once (a child costs tens of
milliseconds then, not seconds). A child ends with its worker: it watches the pipe to it, and whoever is killed with
``kill -9`` leaves no computing orphan behind. What comes back is bytes, never pickled objects: a child that was taken
over by the file it read must not be able to run anything in the worker.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import Any

from ..errors import Exit, ForensicsError

MEMORY = 16 << 30  # bytes of private memory; a fingerprint of a model of any size streams through less
SECONDS = 3600.0
REPLY_LIMIT = 512 << 20  # bytes of an answer
OPEN_FILES = 4096
PRELOAD = ["forensics.jobs.lab", "forensics.jobs.warm"]
GRACE = 5.0  # seconds a child gets to end after its answer


class ChildDied(ForensicsError):
    """The child was killed, ran out of memory or time, or answered nonsense."""

    exit = Exit.UNAVAILABLE


class ChildFailed(ForensicsError):
    """The child refused its input in its own words.

    Args:
        kind: Name of the error's class.
        text: Its line.
    """

    exit = Exit.BAD_INPUT

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


@dataclass(frozen=True)
class Limits:
    """What a child may use.

    Attributes:
        memory: Bytes of private memory (``RLIMIT_DATA``: mapped files do not count, for they can be dropped).
        seconds: Wall time; processor time may be that much for each of two threads.
    """

    memory: int = MEMORY
    seconds: float = SECONDS


class Sandbox:
    """Runs functions of importable modules in children.

    Args:
        limits: What a child may use.
        preload: Modules that the children's parent loads once.
    """

    def __init__(self, limits: Limits | None = None, *, preload: Sequence[str] = tuple(PRELOAD)) -> None:
        self.limits = limits or Limits()
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preload))

    def warm(self) -> None:
        """Start the children's parent now, so that the first child need not wait for it."""
        forkserver.ensure_running()

    def run(
        self, function: Callable[..., tuple[dict[str, Any], bytes]], **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Call ``function`` in a child and return its document and bytes.

        Raises:
            ChildFailed: It refused its input.
            ChildDied: It did not survive.
        """
        ours, theirs = self._context.Pipe()
        child = self._context.Process(target=_main, args=(theirs, self.limits, function, arguments), daemon=True)
        child.start()
        theirs.close()
        try:
            return self._reply(ours, child.sentinel)
        finally:
            ours.close()
            child.join(GRACE)
            if child.is_alive():
                child.kill()
                child.join()
            child.close()

    def _reply(self, pipe: Connection, sentinel: int) -> tuple[dict[str, Any], bytes]:
        ready = wait([pipe, sentinel], timeout=self.limits.seconds)
        if not ready:
            raise ChildDied("took too long", got=f"over {self.limits.seconds:g} s")
        try:
            head = json.loads(pipe.recv_bytes(REPLY_LIMIT))
            body = pipe.recv_bytes(REPLY_LIMIT) if head.get("ok") else b""
        except (EOFError, OSError, ValueError) as error:
            raise ChildDied("was killed while it read the checkpoint", got=type(error).__name__) from None
        if head.get("ok"):
            return dict(head["document"]), body
        if head.get("kind") == "MemoryError":
            raise ChildDied("ran out of memory", expected=f"at most {self.limits.memory >> 20} MiB")
        raise ChildFailed(str(head.get("kind"))[:80], str(head.get("text"))[:400])


def _main(
    pipe: Connection, limits: Limits, function: Callable[..., tuple[dict[str, Any], bytes]], arguments: dict[str, Any]
) -> None:
    """In the child: set limits, work, answer, end at once (nothing of ours is worth tidying up)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(limits)
    threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
    try:
        document, body = function(**arguments)
        pipe.send_bytes(json.dumps({"ok": True, "document": document}).encode())
        pipe.send_bytes(body)
    except BaseException as error:  # whatever it is, the worker is to hear of it
        kind = "MemoryError" if _is_memory(error) else type(error).__name__
        pipe.send_bytes(json.dumps({"ok": False, "kind": kind, "text": str(error)[:400]}).encode())
    os._exit(0)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS, limits.memory)
    _lower(resource.RLIMIT_CPU, int(2 * limits.seconds) + 1)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _end_with_parent(pipe: Connection) -> None:
    """The worker sends nothing; the pipe becomes readable when its end of it is closed."""
    wait([pipe])
    os._exit(1)


def _is_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch says so in words only."""
    text = str(error)
    return isinstance(error, MemoryError) or "not enough memory" in text or "can't allocate memory" in text
