"""The newest snapshot of each subnet in memory, looked after by a cheap question to the database.

A request never waits for the database while what is held was looked at within a second: it is answered, and the look
happens behind it. After a longer silence the request waits for one look, but not for a database that hangs: then what
is held is served on, for it is signed and says itself when it expires. Only when nothing is held is there no answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ...errors import StoreUnavailable
from .pages import Held, prepare
from .shelf import Shelf

CHECK_SECONDS: Final = 0.25
"""Least time between two looks at the newest sequence number."""
FRESH_SECONDS: Final = 1.0
"""How long after a look an answer may be given without waiting for the next."""
PATIENCE_SECONDS: Final = 2.0
"""How long a request waits for a look."""
MAX_HELD: Final = 256
"""Subnets in memory; the chain has 128."""
MAX_LOOKS: Final = 64
"""Looks under way; more are refused, so that asking for every subnet there is does not fill memory."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found for a subnet, and when it was looked at last."""

    held: Held | None
    at: float


@dataclass(frozen=True, slots=True)
class _Look:
    future: Future[None]
    began: float


class Newest:
    """The newest snapshots.

    Args:
        shelf: Where they come from.
        only: The one subnet that is served; any when not set.
        clock: Seconds that only go forward.
        failed: Called with what a look met, for the log.
    """

    def __init__(
        self,
        shelf: Shelf,
        *,
        only: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._shelf, self._only, self._clock, self._failed = shelf, only, clock, failed
        self._seen: dict[int, _Seen] = {}
        self._looks: dict[int, _Look] = {}
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="snapshots")

    def at_hand(self, netuid: int) -> Held | None:
        """What is held and was looked at a moment ago; None when ``get`` must be asked."""
        seen = self._seen.get(netuid)
        return seen.held if seen is not None and self._clock() - seen.at < CHECK_SECONDS else None

    async def get(self, netuid: int) -> Held | None:
        """The newest snapshot; None where none was published.

        Raises:
            StoreUnavailable: Nothing is held, and the database does not answer.
        """
        if self._only is not None and netuid != self._only:
            return None
        now = self._clock()
        seen = self._seen.get(netuid)
        if seen is not None and now - seen.at < CHECK_SECONDS:
            return seen.held
        look = self._look(netuid, now)
        if seen is not None and now - seen.at < FRESH_SECONDS:
            return seen.held
        patience = look.began + PATIENCE_SECONDS - now
        if patience > 0:
            await asyncio.wait([asyncio.wrap_future(look.future)], timeout=patience)
        seen = self._seen.get(netuid)
        if seen is None:
            raise StoreUnavailable("the database does not answer", remedy="Try again.")
        return seen.held

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, netuid: int, now: float) -> _Look:
        look = self._looks.get(netuid)
        if look is None or look.future.done():
            self._looks = {n: under_way for n, under_way in self._looks.items() if not under_way.future.done()}
            if len(self._looks) >= MAX_LOOKS:
                raise StoreUnavailable("too many subnets are being looked up", remedy="Try again.")
            look = self._looks[netuid] = _Look(self._threads.submit(self._refresh, netuid), now)
        return look

    def _refresh(self, netuid: int) -> None:
        seen = self._seen.get(netuid)
        held = None if seen is None else seen.held
        try:
            held = self._read(netuid, held)
        except Exception as error:  # whatever it is, what is held is served on and the log says why
            self._failed(error)
            if held is None:
                return
        self._keep(netuid, _Seen(held, self._clock()))

    def _read(self, netuid: int, held: Held | None) -> Held | None:
        sequence = self._shelf.newest_sequence(netuid)
        if held is not None and sequence == held.stored.sequence:
            return held
        stored = None if sequence is None else self._shelf.newest(netuid)
        return None if stored is None else prepare(stored)

    def _keep(self, netuid: int, seen: _Seen) -> None:
        others = {n: other for n, other in self._seen.items() if n != netuid}
        if len(others) >= MAX_HELD:
            del others[min(others, key=lambda n: (others[n].held is not None, others[n].at))]
        self._seen = others | {netuid: seen}
