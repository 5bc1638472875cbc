"""Snapshots as they are served: the bytes that were signed, once they are in the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, Select, select

from attest import envelope as dsse
from attest.log import Log
from attest.predicates.verdict import UidVerdict, Verdicts
from attest.statement import parse

from ..errors import StoreCorrupt
from ..store.blobs import digest_of
from ..store.engine import reading
from ..store.verdicts import SnapshotRow


@dataclass(frozen=True)
class Stored:
    """A snapshot on record.

    Args:
        genesis: Chain.
        netuid: Subnet.
        sequence: Its number on this subnet, from 1, without gaps.
        block: Block it speaks of.
        digest: Of the statement's payload: the snapshot's name.
        content: Of what it says, apart from when.
        envelope: The signed bytes, as served.
        leaf: Its place in the log; None until it is there, and until then it is not served.
        issued_at: When.
        expires_at: Until when it holds.
    """

    genesis: str
    netuid: int
    sequence: int
    block: int
    digest: str
    content: str
    envelope: bytes
    leaf: int | None
    issued_at: datetime
    expires_at: datetime

    @property
    def etag(self) -> str:
        """Strong entity tag (RFC 9110, 8.8.3): the digest of the bytes, in quotes."""
        return f'"{digest_of(self.envelope).removeprefix("sha256:")}"'

    def verdicts(self) -> Verdicts:
        """What it says.

        Raises:
            StoreCorrupt: The stored bytes are not a snapshot.
        """
        predicate = parse(dsse.read(self.envelope, where="snapshot").payload, where="snapshot").predicate
        if not isinstance(predicate, Verdicts):
            raise StoreCorrupt("not a snapshot", where=f"snapshot {self.sequence} of netuid {self.netuid}")
        return predicate


class Shelf:
    """Snapshots of one chain.

    Args:
        engine: The database.
        genesis: The chain.
        log: The log, for receipts.
    """

    def __init__(self, engine: Engine, genesis: str, *, log: Log | None = None) -> None:
        self._engine, self._genesis, self._log = engine, genesis, log

    def newest(self, netuid: int) -> Stored | None:
        """The newest snapshot of a subnet that is in the log; None where none was published."""
        query = self._logged(netuid).order_by(SnapshotRow.sequence.desc()).limit(1)
        return self._one(query)

    def newest_sequence(self, netuid: int) -> int | None:
        """Its number; the cheap question behind a cache."""
        query = (
            select(SnapshotRow.sequence)
            .where(SnapshotRow.genesis == self._genesis, SnapshotRow.netuid == netuid, SnapshotRow.leaf.is_not(None))
            .order_by(SnapshotRow.sequence.desc())
            .limit(1)
        )
        with reading(self._engine) as session:
            return session.scalars(query).first()

    def find(self, netuid: int, sequence: int) -> Stored | None:
        """The snapshot of a number."""
        return self._one(self._logged(netuid).where(SnapshotRow.sequence == sequence))

    def verdict(self, netuid: int, hotkey: str) -> tuple[UidVerdict, Stored] | None:
        """The newest snapshot's verdict on a hotkey, with that snapshot; None where it has none."""
        stored = self.newest(netuid)
        if stored is None:
            return None
        found = next((v for v in stored.verdicts().verdicts if v.hotkey == hotkey), None)
        return None if found is None else (found, stored)

    def receipt(self, stored: Stored) -> bytes | None:
        """``tlog-proof`` of a snapshot under the log's newest checkpoint; None without a log or before it is logged."""
        if self._log is None or stored.leaf is None:
            return None
        self._log.checkpoint()
        return self._log.prove(stored.leaf).encode()

    def _logged(self, netuid: int) -> Select[SnapshotRow]:
        return select(SnapshotRow).where(
            SnapshotRow.genesis == self._genesis, SnapshotRow.netuid == netuid, SnapshotRow.leaf.is_not(None)
        )

    def _one(self, query: Select[SnapshotRow]) -> Stored | None:
        with reading(self._engine) as session:
            row = session.scalars(query).first()
            return None if row is None else stored_of(row)


def stored_of(row: SnapshotRow) -> Stored:
    """A row as a value."""
    return Stored(
        genesis=row.genesis,
        netuid=row.netuid,
        sequence=row.sequence,
        block=row.block,
        digest=row.digest,
        content=row.content,
        envelope=bytes(row.envelope),
        leaf=row.leaf,
        issued_at=row.issued_at,
        expires_at=row.expires_at,
    )
