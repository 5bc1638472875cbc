"""Subscriptions: who is told, where, of whom."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from ..errors import BadInput
from ..place import Clock, now
from ..store.engine import reading, writing
from ..store.hooks import HookRow, MessageRow
from .addresses import check_url
from .sealing import Sealer
from .signing import SECRET_BYTES

MOST: Final = 5
"""Webhooks of one hotkey."""
ONLY_MOST: Final = 64
"""Hotkeys that one webhook may be limited to."""
WITHDRAWN: Final = "deleted by its owner"
Entropy = Callable[[int], bytes]


class TooManyHooks(BadInput):
    """This hotkey has as many webhooks as it may."""


class HookUnknown(BadInput):
    """No such webhook of this hotkey."""


@dataclass(frozen=True)
class Hook:
    """A subscription, without its secret.

    Args:
        id: Internal number.
        name: Public id.
        hotkey: Its owner.
        genesis: Chain.
        netuid: Subnet.
        url: Where messages go.
        only: Hotkeys it is told of; everybody when empty.
        made_at: When it was made.
        ended_why: Why it ended; None while it lives.
    """

    id: int
    name: str
    hotkey: str
    genesis: str
    netuid: int
    url: str
    only: tuple[str, ...]
    made_at: datetime
    ended_why: str | None


class Subscriptions:
    """Subscriptions of one service.

    Args:
        engine: The database.
        genesis: The chain.
        sealer: Keeps the secrets.
        loopback: Whether messages may go to this machine: for demos and tests.
        clock: The time.
        entropy: ``entropy(n)`` is n random bytes.
    """

    def __init__(
        self,
        engine: Engine,
        genesis: str,
        sealer: Sealer,
        *,
        loopback: bool = False,
        clock: Clock = now,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        self._engine, self._genesis, self._sealer = engine, genesis, sealer
        self._loopback, self._clock, self._entropy = loopback, clock, entropy

    def add(self, hotkey: str, *, netuid: int, url: str, only: Sequence[str] = ()) -> Hook:
        """Subscribe.

        Raises:
            UrlRefused: Messages are not sent there.
            TooManyHooks: The hotkey has as many as it may.
        """
        check_url(url, loopback=self._loopback)
        name = "hook_" + self._entropy(16).hex()
        with writing(self._engine) as session:
            if _living(session, hotkey) >= MOST:
                raise TooManyHooks("as many webhooks as one hotkey may have", got=MOST, remedy="Delete one.")
            row = HookRow(
                name=name,
                hotkey=hotkey,
                genesis=self._genesis,
                netuid=netuid,
                url=url,
                only=json.dumps(sorted(set(only))[:ONLY_MOST]),
                sealed=self._sealer.seal(self._entropy(SECRET_BYTES), name),
                made_at=self._clock(),
                failures=0,
            )
            session.add(row)
            session.flush()
            return hook_of(row)

    def of(self, hotkey: str) -> list[Hook]:
        """A hotkey's subscriptions that live, or that ended without being deleted."""
        query = select(HookRow).where(HookRow.hotkey == hotkey).order_by(HookRow.id)
        with reading(self._engine) as session:
            return [hook_of(row) for row in session.scalars(query) if row.ended_why != WITHDRAWN]

    def secret(self, hotkey: str, name: str) -> bytes:
        """The secret that messages are signed with, for the owner.

        Raises:
            HookUnknown: No such webhook of this hotkey.
            StoreCorrupt: The secret does not open.
        """
        with reading(self._engine) as session:
            row = _owned(session, hotkey, name)
            return self._sealer.open(row.sealed, row.name)

    def remove(self, hotkey: str, name: str) -> None:
        """End a subscription; what was not sent yet is not sent any more.

        Raises:
            HookUnknown: No such webhook of this hotkey.
        """
        with writing(self._engine) as session:
            end(session, _owned(session, hotkey, name), WITHDRAWN, at=self._clock())


def end(session: Session, row: HookRow, why: str, *, at: datetime) -> None:
    """Mark a subscription as ended, and drop what waits for it."""
    row.ended_at, row.ended_why = at, why[:400]
    waiting = select(MessageRow).where(MessageRow.hook_id == row.id, MessageRow.due_at.is_not(None))
    for message in session.scalars(waiting):
        message.due_at, message.outcome = None, "the webhook ended"


def hook_of(row: HookRow) -> Hook:
    """A row as a value."""
    return Hook(
        id=row.id,
        name=row.name,
        hotkey=row.hotkey,
        genesis=row.genesis,
        netuid=row.netuid,
        url=row.url,
        only=tuple(json.loads(row.only)),
        made_at=row.made_at,
        ended_why=row.ended_why,
    )


def _living(session: Session, hotkey: str) -> int:
    query = select(func.count()).select_from(HookRow).where(HookRow.hotkey == hotkey, HookRow.ended_at.is_(None))
    return session.execute(query).scalar() or 0


def _owned(session: Session, hotkey: str, name: str) -> HookRow:
    row = session.scalars(select(HookRow).where(HookRow.hotkey == hotkey, HookRow.name == name)).one_or_none()
    if row is None or row.ended_why == WITHDRAWN:
        raise HookUnknown("no such webhook of yours", got=name[:60])
    return row
