"""Stored statements, by digest and by what they are about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from attest import statement as statements
from attest.envelope import Envelope
from attest.predicates import Lineage, Ownership
from attest.statement import Statement

from ..store.attestation import AttestationRow
from ..store.engine import reading
from .record import Record


class Records:
    """Statements in the database; their bytes are blobs.

    Args:
        engine: The database.
        clock: The time, for the record only.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime]) -> None:
        self._engine, self._clock = engine, clock

    def find(self, digest: str) -> Record | None:
        """The statement of this digest."""
        with reading(self._engine) as session:
            row = session.scalar(select(AttestationRow).where(AttestationRow.digest == digest))
            return None if row is None else _record(row)

    def claims(self, root: str, *, genesis: str, netuid: int | None) -> list[Record]:
        """Ownership claims that name this content root here, in the order received."""
        query = select(AttestationRow).where(
            AttestationRow.content_root == root,
            AttestationRow.genesis == genesis,
            AttestationRow.kind == statements.NAMESPACE + "ownership/v1",
        )
        return self._list(query if netuid is None else query.where(AttestationRow.netuid == netuid))

    def of_kind(self, kind: str, *, genesis: str, netuid: int) -> list[Record]:
        """All statements of one predicate type on this subnet, in the order received."""
        here = (AttestationRow.genesis == genesis, AttestationRow.netuid == netuid)
        return self._list(select(AttestationRow).where(AttestationRow.kind == kind, *here))

    def version(self, kind: str) -> int:
        """Grows with every statement of that type that is added."""
        with reading(self._engine) as session:
            return session.scalar(select(func.max(AttestationRow.id)).where(AttestationRow.kind == kind)) or 0

    def _list(self, query: object) -> list[Record]:
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(AttestationRow.id))  # type: ignore[attr-defined]
            return [_record(row) for row in rows]

    def add(
        self, session: Session, envelope: Envelope, statement: Statement, *, blob: str, index: int, submitted_by: str
    ) -> Record:
        """Store a statement in the caller's transaction; one that is there already stays as it is."""
        known = session.scalar(select(AttestationRow).where(AttestationRow.digest == envelope.digest))
        if known is not None:
            return _record(known)
        context, predicate = statement.context, statement.predicate
        ownership = predicate if isinstance(predicate, Ownership) else None
        names_model = isinstance(predicate, Ownership | Lineage)
        row = AttestationRow(
            digest=envelope.digest,
            kind=statement.predicate_type,
            form=str(ownership.form) if ownership else "",
            scheme=context.scheme,
            hotkey=context.hotkey,
            genesis=context.genesis,
            netuid=context.netuid,
            competition=context.competition,
            content_root=statement.digest_of(statements.CONTENT_ROOT) if names_model else None,
            opens=ownership.opening.statement if ownership and ownership.opening else None,
            blob=blob,
            log_index=index,
            submitted_by=submitted_by,
            received_at=self._clock(),
        )
        session.add(row)
        session.flush()
        return _record(row)


def _record(row: AttestationRow) -> Record:
    return Record(
        id=row.id,
        digest=row.digest,
        kind=row.kind,
        form=row.form,
        scheme=row.scheme,
        hotkey=row.hotkey,
        genesis=row.genesis,
        netuid=row.netuid,
        content_root=row.content_root,
        opens=row.opens,
        blob=row.blob,
        log_index=row.log_index,
        submitted_by=row.submitted_by,
        received_at=row.received_at,
    )
