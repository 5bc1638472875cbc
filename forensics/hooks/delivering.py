"""Sending messages until they are received, or given up on.

Received is any 2xx answer. Anything else is tried again, on the schedule that the Standard Webhooks specification
recommends; 410 Gone, or messages given up on again and again, end the webhook. Before a message is sent its next
attempt is put off, so a worker that is killed in the middle leaves it to be sent again, and two workers do not send
the same one at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import Engine, func, select, update

from ..errors import BadInput, StoreCorrupt, Unavailable
from ..place import Clock, now
from ..store.engine import reading, writing
from ..store.hooks import HookRow, MessageRow
from . import signing
from .addresses import Target, resolve
from .sealing import Sealer
from .subscriptions import end

SCHEDULE: Final = tuple(timedelta(seconds=s) for s in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400))
"""Pauses after the first attempt and the following ones."""
LEASE: Final = timedelta(minutes=2)
"""How long a message that is being sent is left alone; longer than sending may take."""
BATCH: Final = 20
GIVEN_UP: Final = 5
"""Messages given up on in a row after which a webhook ends."""
SECONDS: Final = 15.0
GONE: Final = 410


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Args:
        status: HTTP status; 0 when there was no answer.
        why: In a few words.
    """

    status: int
    why: str

    @property
    def received(self) -> bool:
        """Whether the receiver has it."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Sent:
    """What a step did."""

    received: int = 0
    failed: int = 0


@dataclass(frozen=True)
class _Waiting:
    """A message that this worker has taken."""

    id: int
    hook: int
    name: str
    body: bytes
    attempts: int
    url: str
    owner: str
    sealed: bytes


Post = Callable[[Target, dict[str, str], bytes], int]
"""Sends a body to where it was resolved to; gives the status, or raises ``Unavailable``."""


class Deliverer:
    """Sends what is due.

    Args:
        engine: The database.
        sealer: Opens the secrets.
        loopback: Whether messages may go to this machine: for demos and tests.
        clock: The time.
        post: Sends; over the network when absent.
    """

    def __init__(
        self,
        engine: Engine,
        sealer: Sealer,
        *,
        loopback: bool = False,
        clock: Clock = now,
        post: Post | None = None,
    ) -> None:
        self._engine, self._sealer, self._loopback = engine, sealer, loopback
        self._clock, self._post = clock, post or post_pinned

    def step(self) -> Sent:
        """Send what is due now, up to ``BATCH`` messages."""
        received = failed = 0
        for message in self._due():
            if not self._take(message):
                continue
            outcome = self._send(message)
            self._settle(message, outcome)
            received, failed = received + outcome.received, failed + (not outcome.received)
        return Sent(received, failed)

    def waiting(self) -> int:
        """Messages that were neither received nor given up on."""
        query = select(func.count()).select_from(MessageRow).where(MessageRow.due_at.is_not(None))
        with reading(self._engine) as session:
            return session.execute(query).scalar() or 0

    def _due(self) -> list[_Waiting]:
        query = (
            select(MessageRow, HookRow)
            .join(HookRow, HookRow.id == MessageRow.hook_id)
            .where(MessageRow.due_at <= self._clock(), HookRow.ended_at.is_(None))
            .order_by(MessageRow.due_at, MessageRow.id)
            .limit(BATCH)
        )
        with reading(self._engine) as session:
            return [
                _Waiting(m.id, h.id, m.name, m.body, m.attempts, h.url, h.name, h.sealed)
                for m, h in session.execute(query)
            ]

    def _take(self, message: _Waiting) -> bool:
        """Put the next attempt off; false when another worker was faster."""
        now_ = self._clock()
        mine = (MessageRow.id == message.id, MessageRow.attempts == message.attempts, MessageRow.due_at <= now_)
        change = update(MessageRow).where(*mine).values(due_at=now_ + LEASE, attempts=message.attempts + 1)
        with writing(self._engine) as session:
            return session.execute(change.returning(MessageRow.id)).scalar() is not None

    def _send(self, message: _Waiting) -> Outcome:
        try:
            secret = self._sealer.open(message.sealed, message.owner)
            target = resolve(message.url, loopback=self._loopback)
            seconds = int(self._clock().timestamp())
            headers = signing.headers(secret, name=message.name, seconds=seconds, body=message.body)
            status = self._post(target, headers, message.body)
        except (Unavailable, BadInput, StoreCorrupt) as error:
            return Outcome(0, error.what)
        return Outcome(status, f"HTTP {status}")

    def _settle(self, message: _Waiting, outcome: Outcome) -> None:
        at = self._clock()
        with writing(self._engine) as session:
            row, hook = session.get_one(MessageRow, message.id), session.get_one(HookRow, message.hook)
            row.outcome = outcome.why[:200]
            if outcome.received:
                row.received_at, row.due_at, hook.failures = at, None, 0
            elif outcome.status == GONE:
                end(session, hook, "the receiver answered 410 Gone", at=at)
            elif message.attempts < len(SCHEDULE):
                row.due_at = at + SCHEDULE[message.attempts]
            else:
                row.due_at, hook.failures = None, hook.failures + 1
                if hook.failures >= GIVEN_UP:
                    end(session, hook, f"{GIVEN_UP} messages in a row were not received", at=at)


def post_pinned(target: Target, headers: dict[str, str], body: bytes) -> int:
    """POST to exactly the address that was resolved; the answer's body is not read.

    Raises:
        Unavailable: No answer in time.
    """
    import httpx2

    more = {"Host": target.shown_host, "Content-Type": "application/json", "User-Agent": "forensics-webhooks/1"}
    options = {"sni_hostname": target.host} if target.secure else {}
    try:
        with (
            httpx2.Client(timeout=SECONDS, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", target.pinned, content=body, headers=headers | more, extensions=options) as answer,
        ):
            return answer.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unavailable(f"not delivered: {type(error).__name__}", where=target.host) from None
