"""Idempotency-Key: the same request sent again by the same hotkey gets the same answer, and nothing happens twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Engine, delete
from sqlalchemy.dialects import postgresql, sqlite

from ..store.attestation import AnswerRow
from ..store.blobs import digest_of
from ..store.engine import reading, writing
from .problems import Problem

HEADER: Final = "Idempotency-Key"
KEPT: Final = timedelta(hours=24)
_KEY: Final = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True)
class Answer:
    """What was, or is to be, answered."""

    status: int
    body: bytes


class Answers:
    """Answers that were given, for a day.

    Args:
        engine: The database.
        clock: The time.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime]) -> None:
        self._engine, self._clock = engine, clock

    def once(self, key: str | None, *, hotkey: str, request: bytes, act: Callable[[], Answer]) -> Answer:
        """Act, unless this key was used before; errors are not remembered, for they changed nothing.

        Args:
            key: The header; without one nothing is remembered.
            hotkey: Who asks; keys of different callers do not meet.
            request: Method, path and body.
            act: Does what is asked.

        Raises:
            Problem: The key is malformed, or was used for another request.
        """
        if key is None:
            return act()
        if not _KEY.fullmatch(key):
            raise Problem(400, "idempotency_key_malformed", "1 to 255 visible ASCII characters")
        digest = digest_of(request)
        return self._find(key, hotkey, digest) or self._keep(key, hotkey, digest, act())

    def _find(self, key: str, hotkey: str, request: str) -> Answer | None:
        with reading(self._engine) as session:
            row = session.get(AnswerRow, (hotkey, key))
            if row is None or row.expires_at < self._clock():
                return None
            if row.request != request:
                raise Problem(422, "idempotency_key_reused", "this key was used for another request")
            return Answer(row.status, row.body)

    def _keep(self, key: str, hotkey: str, request: str, answer: Answer) -> Answer:
        now = self._clock()
        values = {"hotkey": hotkey, "key": key, "request": request, "status": answer.status, "body": answer.body}
        with writing(self._engine) as session:
            session.execute(delete(AnswerRow).where(AnswerRow.expires_at < now))
            insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
            session.execute(insert(AnswerRow).values(**values, expires_at=now + KEPT).on_conflict_do_nothing())
        return answer
