"""Where the newest snapshot of a subnet comes from: an interface, and the database behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import ColumnElement, Engine, func, select

from ...store.engine import reading
from ...store.verdicts import SnapshotRow


@dataclass(frozen=True)
class Stored:
    """A snapshot as it was signed.

    Args:
        netuid: Subnet.
        sequence: Its number; they have no gaps.
        digest: ``sha256:`` of the payload: the statement's name.
        envelope: The signed bytes (DSSE, JSON).
        leaf: Its place in the log.
        issued_at: When it was signed.
        expires_at: When it ceases to count.
    """

    netuid: int
    sequence: int
    digest: str
    envelope: bytes
    leaf: int | None
    issued_at: datetime
    expires_at: datetime


class Shelf(Protocol):
    """Signed snapshots by subnet."""

    def newest_sequence(self, netuid: int) -> int | None:
        """Number of the newest snapshot, None where none was published; cheap, for it is asked all the time."""

    def newest(self, netuid: int) -> Stored | None:
        """The newest snapshot."""


class DatabaseShelf:
    """The shelf of one chain in the database.

    Args:
        engine: The database.
        genesis: Genesis hash of the chain.
    """

    def __init__(self, engine: Engine, genesis: str) -> None:
        self._engine, self._genesis = engine, genesis

    def newest_sequence(self, netuid: int) -> int | None:
        """As ``Shelf``; one look into an index.

        Raises:
            StoreUnavailable: The database cannot be read.
        """
        query = select(func.max(SnapshotRow.sequence)).where(*self._logged(netuid))
        with reading(self._engine) as session:
            return session.execute(query).scalar()

    def newest(self, netuid: int) -> Stored | None:
        """As ``Shelf``.

        Raises:
            StoreUnavailable: The database cannot be read.
        """
        query = select(SnapshotRow).where(*self._logged(netuid)).order_by(SnapshotRow.sequence.desc()).limit(1)
        with reading(self._engine) as session:
            row = session.execute(query).scalar()
            return None if row is None else _stored(row)

    def _logged(self, netuid: int) -> tuple[ColumnElement[bool], ...]:
        """Only what is in the log is served."""
        return SnapshotRow.genesis == self._genesis, SnapshotRow.netuid == netuid, SnapshotRow.leaf.is_not(None)


def _stored(row: SnapshotRow) -> Stored:
    return Stored(row.netuid, row.sequence, row.digest, row.envelope, row.leaf, row.issued_at, row.expires_at)
