"""Asynchronous calls from ordinary threads: one event loop in a thread of its own, closed when it is no longer needed.

bittensor has a blocking client of the same design; it leaves its loop open, and offers no way to close it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """Starts on first use; may be used again after ``close``."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Thread] | None = None

    def call(self, coroutine: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Run to the end and give back its result, or raise what it raised.

        Raises:
            TimeoutError: It took longer than ``seconds``; it is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the thread and close the loop."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            loop, thread = running
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._running is None:
                loop = asyncio.new_event_loop()
                thread = Thread(target=loop.run_forever, name="chain", daemon=True)
                thread.start()
                self._running = loop, thread
            return self._running[0]
