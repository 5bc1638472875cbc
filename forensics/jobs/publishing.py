"""When a snapshot is due: a verdict is new, an entry waits for another reason, the subnet changed, or the old one ends.

Whoever publishes looks at the database and remembers nothing, so no wish to publish can be lost. The look is one query
a second; the publisher itself decides whether there is something to sign.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol

from sqlalchemy import Engine, func, select

from ..chain.observed import Neuron
from ..chain.subnet import Subnet
from ..store.chain import SyncRow
from ..store.engine import reading
from ..store.entries import EntryRow
from ..store.verdicts import VerdictRow

RENEWALS = 30  # looks without news after which the publisher is asked anyway, for the old snapshot may be ending


class Publishes(Protocol):
    """Signs, stores and logs a snapshot when there is something new to say."""

    def publish(self, netuid: int, block: int, neurons: Iterable[Neuron]) -> object: ...  # noqa: D102


class Press:
    """Publishes every subnet that was read from the chain.

    Args:
        engine: The database.
        publisher: Signs and stores.
        genesis: The chain.
        netuid: The only subnet; all that were read when None.
    """

    def __init__(self, engine: Engine, publisher: Publishes, *, genesis: str, netuid: int | None) -> None:
        self._engine, self._publisher, self._genesis, self._netuid = engine, publisher, genesis, netuid
        self._seen: dict[int, tuple[object, ...]] = {}
        self._idle = 0
        self.wake = threading.Event()

    def wish(self, genesis: str, netuid: int) -> None:
        """A verdict is new."""
        self.wake.set()

    def run(self) -> int:
        """Publish what has news; how many subnets those were."""
        self._idle += 1
        if self._idle > RENEWALS:
            self._seen.clear()
            self._idle = 0
        return sum(self._one(netuid, news) for netuid, news in self._news().items() if self._seen.get(netuid) != news)

    def _one(self, netuid: int, news: tuple[object, ...]) -> int:
        subnet = Subnet(self._engine, self._genesis, netuid)
        block = subnet.block()
        if block is None:
            return 0
        self._publisher.publish(netuid, block, subnet.neurons())
        self._seen[netuid] = news
        return 1

    def _news(self) -> dict[int, tuple[object, ...]]:
        """By subnet, what changes whenever its snapshot may have to."""
        verdict = select(func.max(VerdictRow.id)).where(
            VerdictRow.genesis == SyncRow.genesis, VerdictRow.netuid == SyncRow.netuid
        )
        entry = select(func.max(EntryRow.changed_at)).where(
            EntryRow.genesis == SyncRow.genesis, EntryRow.netuid == SyncRow.netuid
        )
        query = select(SyncRow.netuid, SyncRow.block, verdict.scalar_subquery(), entry.scalar_subquery())
        with reading(self._engine) as session:
            rows = session.execute(query.where(SyncRow.genesis == self._genesis)).all()
        return {row[0]: tuple(row[1:]) for row in rows if self._netuid in (None, row[0])}
