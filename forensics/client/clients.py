"""The two clients, blocking and async: thin shells around ``core`` (decisions), ``cache`` (disk) and ``fetch``."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attest.log.note import NoteKey

from ..place import Clock, now
from . import core
from .cache import Cache
from .codes import Code, Problem
from .core import Answer, Conclusion, Held
from .fetch import DEADLINE, PAUSE, TRIES, Fetcher
from .reading import Reading
from .snapshot import Refused, Trust, check_logged

if TYPE_CHECKING:
    import httpx2

LOG: Final = logging.getLogger("forensics.client")
GRACE: Final = 5.0
"""Seconds beyond the deadline after which a blocking read stops waiting for its thread (a resolver that hangs)."""
Loud = Callable[[Reading], None]


class _Client:
    """What both clients are made of.

    Args:
        url: The service, ``https://HOST`` or ``http://HOST:PORT``.
        service_key: ``name+id+base64``, as ``GET /v1/service`` shows ``log_key``; get it from somebody you believe.
        netuid: Subnet.
        network: Its chain, by name.
        genesis: Genesis hash, for a network whose hash is not built in.
        cache: Folder for the last snapshot; without one a restart forgets, rollbacks included.
        clock: The time.
        transport: An ``httpx2.AsyncBaseTransport`` instead of a network.
        deadline: Seconds for one reading, all tries together.
        tries: How often to ask while the service cannot be reached.
        pause: Seconds before the second try.
        on_problem: Called with every reading that somebody should look at, after it was logged.

    Raises:
        UsageError: One of these makes no sense.
    """

    def __init__(
        self,
        url: str,
        service_key: str | NoteKey,
        *,
        netuid: int,
        network: str = "finney",
        genesis: str = "",
        cache: Path | None = None,
        clock: Clock = now,
        transport: httpx2.AsyncBaseTransport | None = None,
        deadline: float = DEADLINE,
        tries: int = TRIES,
        pause: float = PAUSE,
        on_problem: Loud | None = None,
    ) -> None:
        self.trust = Trust.of(service_key, netuid=netuid, network=network, genesis=genesis)
        self._fetcher = Fetcher(url, transport, deadline, tries, pause)
        self._cache = None if cache is None else Cache(cache, self.trust)
        self._clock, self._on_problem = clock, on_problem
        self._held = Held()
        self._last: Reading | None = None
        self._lock = threading.Lock()

    @property
    def last(self) -> Reading | None:
        """The last reading; None before the first."""
        return self._last

    def offline(self) -> Reading:
        """What can be said without asking anybody."""
        _, problems = self._begin()
        with self._lock:
            found = core.reading(self._held, self._clock(), confirmed=False, problems=problems)
        return self._tell(found)

    def check_logged(self, receipt: bytes) -> int:
        """Check that the snapshot at hand is in the service's public log; the leaf's number.

        Raises:
            Refused: There is none, or the receipt does not show it.
        """
        if self._held.snapshot is None:
            raise Refused(Code.NOTHING_YET, "no snapshot at hand")
        return check_logged(self._held.snapshot, receipt, self.trust)

    def _begin(self) -> tuple[Held, tuple[Problem, ...]]:
        """What to ask with: the newest that this process or another one sharing the cache has."""
        with self._lock:
            if self._cache is None:
                return self._held, ()
            stored, problems = self._cache.load()
            self._held = core.newest(self._held, stored)
            return self._held, problems

    def _finish(self, answer: Answer | Problem, asked: Held, before: tuple[Problem, ...]) -> Reading:
        with self._lock:
            # held against what was known when it was asked: another thread may have learnt of a newer one since
            found = core.conclude(asked, answer, self.trust, self._clock())
            self._held = core.newest(found.held, self._held)
            after = self._remember(found)
            told = replace(found.reading, problems=found.reading.problems + before + after + self._plain())
        return self._tell(told)

    def _remember(self, found: Conclusion) -> tuple[Problem, ...]:
        if self._cache is None:
            return ()
        kept = () if found.evidence is None else self._cache.keep(found.evidence)
        self._held, problems = self._cache.store(self._held)
        return kept + problems

    def _plain(self) -> tuple[Problem, ...]:
        if not self._fetcher.plain:
            return ()
        return (Problem(Code.PLAIN_HTTP, "not encrypted: it can be withheld, though not changed, on the way"),)

    def _tell(self, reading: Reading) -> Reading:
        self._last = reading
        if reading.loud:
            LOG.warning("verdicts of subnet %d: %s", self.trust.netuid, reading.why)
            if self._on_problem is not None:
                self._on_problem(reading)
        return reading


class AsyncVerdictClient(_Client):
    """Reads verdicts inside an event loop; see ``VerdictClient``."""

    async def read(self) -> Reading:
        """Ask the service and conclude; raises nothing that a network, a disk or a hostile service can cause."""
        held, problems = await asyncio.to_thread(self._begin)
        answer = await self._fetcher.get(core.path(self.trust.netuid), core.headers(held))
        return await asyncio.to_thread(self._finish, answer, held, problems)


class VerdictClient(_Client):
    """Reads verdicts and blocks until it has an answer, at most for the deadline.

    The request runs in a thread of its own, so this works inside notebooks too, and a name server that never answers
    holds nobody up.
    """

    def read(self) -> Reading:
        """Ask the service and conclude; raises nothing that a network, a disk or a hostile service can cause."""
        held, problems = self._begin()
        return self._finish(self._fetch(held), held, problems)

    def _fetch(self, held: Held) -> Answer | Problem:
        box: list[Any] = []

        def run() -> None:
            try:
                box.append(asyncio.run(self._fetcher.get(core.path(self.trust.netuid), core.headers(held))))
            except Exception as error:  # a bug in a library is no reason to leave weights unset
                box.append(Problem(Code.UNREACHABLE, f"{type(error).__name__}: {str(error)[:200]}"))

        thread = threading.Thread(target=run, name="verdicts", daemon=True)
        thread.start()
        thread.join(self._fetcher.deadline + GRACE)
        if not box:
            return Problem(Code.TIMED_OUT, f"{self._fetcher.shown}: no answer within {self._fetcher.deadline:g} s")
        found: Answer | Problem = box[0]
        return found
