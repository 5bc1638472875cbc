"""Who fetched hidden items, and when: written before anything is handed out, bound by the statement that closes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from attest import canonical

from ..store.engine import reading
from ..store.epochs import SeedFetchRow


@dataclass(frozen=True)
class Fetch:
    """One hand-over: to whom, when by the service's clock, how many items, and the digest of their ids."""

    hotkey: str
    at: datetime
    items: int
    digest: str


def of(engine: Engine, epoch_id: int) -> list[Fetch]:
    """Every hand-over of an epoch, in order."""
    with reading(engine) as session:
        return _read(session, epoch_id)


def add(session: Session, epoch_id: int, fetch: Fetch) -> None:
    """Note a hand-over; the caller hands out nothing before the transaction is durable."""
    session.add(SeedFetchRow(epoch_id=epoch_id, **vars(fetch)))


def digest(session: Session, epoch_id: int) -> str:
    """``sha256:`` of the whole record of an epoch as canonical JSON."""
    rows = [
        [f.hotkey, f.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), f.items, f.digest]
        for f in _read(session, epoch_id)
    ]
    return "sha256:" + sha256(canonical.write(rows)).hexdigest()


def _read(session: Session, epoch_id: int) -> list[Fetch]:
    query = select(SeedFetchRow).where(SeedFetchRow.epoch_id == epoch_id).order_by(SeedFetchRow.id)
    return [Fetch(row.hotkey, row.at, row.items, row.digest) for row in session.scalars(query)]
