"""Signed requests that were accepted, shared by every process on the database: none is accepted twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Engine, delete
from sqlalchemy.dialects import postgresql, sqlite

from ..store.attestation import NonceRow
from ..store.engine import writing

RETENTION = 60.0
"""Seconds an entry is kept; five times the window in which its signature is fresh."""


class DatabaseNonces:
    """A ``bittensor.http_auth.NonceStore`` in the database.

    Args:
        engine: The database.
        clock: The time.
        retention: Seconds; ``http_auth.verify`` refuses a store that forgets before its window ends.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime], retention: float = RETENTION) -> None:
        self._engine, self._clock, self.retention = engine, clock, retention

    def check_and_store(self, hotkey_ss58: str, nonce_ns: int) -> bool:
        """Whether this pair is new; it is remembered in the same transaction."""
        now = self._clock()
        values = {"hotkey": hotkey_ss58, "nonce": nonce_ns, "expires_at": now + timedelta(seconds=self.retention)}
        with writing(self._engine) as session:
            session.execute(delete(NonceRow).where(NonceRow.expires_at < now))
            insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
            kept = insert(NonceRow).values(**values).on_conflict_do_nothing().returning(NonceRow.nonce)
            return session.execute(kept).scalar() is not None
