"""From published snapshots to messages, each snapshot once whatever is killed in between.

The snapshots of a subnet are gone through in their order. What one changes is written as messages in the transaction
that notes it as announced; a second worker that does the same at the same time finds it noted.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from ..place import Clock, now
from ..store.engine import reading, writing
from ..store.hooks import AnnouncedRow, HookRow, MessageRow
from ..store.verdicts import SnapshotRow
from .changes import Change, between, message, predicate_of
from .subscriptions import Entropy, hook_of

BATCH: Final = 100
"""Snapshots of a subnet in one step."""


class Announcer:
    """Writes messages for what was published.

    Args:
        engine: The database.
        genesis: The chain.
        clock: The time.
        entropy: ``entropy(n)`` is n random bytes.
    """

    def __init__(
        self, engine: Engine, genesis: str, *, clock: Clock = now, entropy: Entropy = secrets.token_bytes
    ) -> None:
        self._engine, self._genesis, self._clock, self._entropy = engine, genesis, clock, entropy

    def step(self) -> int:
        """Go through what is new; how many messages were written."""
        return sum(self._subnet(netuid, newest) for netuid, newest in self._newest())

    def _newest(self) -> list[tuple[int, int]]:
        """Newest logged snapshot of each subnet that is not announced yet."""
        newest = (
            select(SnapshotRow.netuid, func.max(SnapshotRow.sequence))
            .where(SnapshotRow.genesis == self._genesis, SnapshotRow.leaf.is_not(None))
            .group_by(SnapshotRow.netuid)
        )
        known = select(AnnouncedRow).where(AnnouncedRow.genesis == self._genesis)
        with reading(self._engine) as session:
            done = {row.netuid: row.sequence for row in session.scalars(known)}
            return [(n, sequence) for n, sequence in session.execute(newest) if sequence > done.get(n, 0)]

    def _subnet(self, netuid: int, newest: int) -> int:
        written = 0
        for _ in range(BATCH):
            done, more = self._one(netuid, newest)
            written += done
            if not more:
                break
        return written

    def _one(self, netuid: int, newest: int) -> tuple[int, bool]:
        """The next snapshot; messages written, and whether another one waits."""
        with writing(self._engine) as session:
            noted = session.get(AnnouncedRow, (self._genesis, netuid), with_for_update=True)
            last = 0 if noted is None else noted.sequence
            if last >= newest:
                return 0, False
            if noted is None:
                noted = AnnouncedRow(genesis=self._genesis, netuid=netuid, sequence=0)
                session.add(noted)
            noted.sequence = last + 1
            written = self._write(session, netuid, last + 1)
        return written, last + 1 < newest

    def _write(self, session: Session, netuid: int, sequence: int) -> int:
        hooks = session.scalars(
            select(HookRow).where(
                HookRow.genesis == self._genesis, HookRow.netuid == netuid, HookRow.ended_at.is_(None)
            )
        ).all()
        after = self._predicate(session, netuid, sequence) if hooks else None
        if after is None:
            return 0
        changes = between(self._predicate(session, netuid, sequence - 1), after)
        at = self._clock()
        rows = [self._row(row, after, changes, at) for row in hooks]
        session.add_all([row for row in rows if row is not None])
        return sum(row is not None for row in rows)

    def _row(self, row: HookRow, after: dict[str, Any], changes: Sequence[Change], at: datetime) -> MessageRow | None:
        only = hook_of(row).only
        told = [change for change in changes if not only or change.hotkey in only]
        if not told:
            return None
        return MessageRow(
            name="msg_" + self._entropy(16).hex(),
            hook_id=row.id,
            sequence=after["sequence"],
            body=message(after, told),
            made_at=at,
            attempts=0,
            due_at=at,
        )

    def _predicate(self, session: Session, netuid: int, sequence: int) -> dict[str, Any] | None:
        query = select(SnapshotRow.envelope).where(
            SnapshotRow.genesis == self._genesis, SnapshotRow.netuid == netuid, SnapshotRow.sequence == sequence
        )
        found = session.execute(query).scalar()
        return None if found is None else predicate_of(found, where=f"snapshot {sequence} of subnet {netuid}")
