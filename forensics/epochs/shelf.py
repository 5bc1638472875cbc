"""Epochs and their statements in the database, and the way of statements into the log.

A statement is stored in the transaction that changes the state (outbox) and appended to the log after it. A kill in
between leaves it in the outbox; the next call appends the same bytes, and the log knows them: nothing is said twice or
differently.
"""

from __future__ import annotations

from sqlalchemy import Engine, Select, select, update
from sqlalchemy.orm import Session

from attest.log import Log
from attest.log.note import open_checkpoint
from attest.log.proof import parse_receipt

from ..place import Place
from ..store.engine import reading, writing
from ..store.epochs import EpochRow, EpochStatementRow
from .errors import EpochUnknown
from .machine import FINAL
from .records import Epoch, from_row
from .statements import COMMITMENT

PAGE = 256


class Shelf:
    """Epochs of one contest.

    Args:
        engine: The database.
        log: The transparency log.
        contest: Whose epochs.
    """

    def __init__(self, engine: Engine, log: Log, contest: Place) -> None:
        self.engine, self.log, self.contest = engine, log, contest

    def epoch(self, number: int) -> Epoch:
        """One epoch.

        Raises:
            EpochUnknown: There is none of this number.
        """
        with reading(self.engine) as session:
            row = session.scalar(self._select().where(EpochRow.number == number))
            if row is None:
                raise EpochUnknown("no such epoch", where=f"netuid {self.contest.netuid}", got=number)
            return from_row(row)

    def epochs(self) -> list[Epoch]:
        """All of them, in order."""
        with reading(self.engine) as session:
            return [from_row(row) for row in session.scalars(self._select().order_by(EpochRow.number))]

    def living(self) -> list[Epoch]:
        """Those that are neither revealed nor void, in order."""
        query = self._select().where(EpochRow.state.not_in([str(s) for s in FINAL])).order_by(EpochRow.number)
        with reading(self.engine) as session:
            return [from_row(row) for row in session.scalars(query)]

    def last(self) -> Epoch | None:
        """The one of the highest number."""
        with reading(self.engine) as session:
            row = session.scalar(self._select().order_by(EpochRow.number.desc()).limit(1))
            return None if row is None else from_row(row)

    def statements(self, epoch: Epoch) -> dict[str, EpochStatementRow]:
        """What was said of an epoch, by kind, in the order in which it was said."""
        query = select(EpochStatementRow).where(EpochStatementRow.epoch_id == epoch.id).order_by(EpochStatementRow.id)
        with reading(self.engine) as session:
            rows = list(session.scalars(query))
            session.expunge_all()
            return {row.kind: row for row in rows}

    def flush(self) -> int:
        """Append to the log what is not in it yet; the number of statements appended."""
        done = 0
        while waiting := self._outbox():
            leaves = self.log.append([envelope for _, envelope in waiting])
            with writing(self.engine) as session:
                for (number, _), leaf in zip(waiting, leaves, strict=True):
                    session.execute(update(EpochStatementRow).where(EpochStatementRow.id == number).values(leaf=leaf))
            done += len(waiting)
        return done

    def take_receipts(self) -> None:
        """Give every logged commitment that has none a receipt, under one checkpoint for all of them."""
        query = select(EpochStatementRow.id, EpochStatementRow.leaf).where(
            EpochStatementRow.kind == COMMITMENT,
            EpochStatementRow.leaf.is_not(None),
            EpochStatementRow.receipt.is_(None),
        )
        with reading(self.engine) as session:
            bare = [(number, leaf) for number, leaf in session.execute(query) if leaf is not None]
        if not bare:
            return
        self.log.checkpoint()
        receipts = {number: self.log.prove(leaf).encode() for number, leaf in bare}
        with writing(self.engine) as session:
            for number, receipt in receipts.items():
                session.execute(
                    update(EpochStatementRow)
                    .where(EpochStatementRow.id == number, EpochStatementRow.receipt.is_(None))
                    .values(receipt=receipt)
                )

    def anchored_digest(self, epoch: Epoch) -> bytes | None:
        """Digest of the checkpoint in the commitment's receipt: what must be in a block."""
        receipt = self.statements(epoch)[COMMITMENT].receipt
        if receipt is None:
            return None
        return open_checkpoint(parse_receipt(receipt).checkpoint, log=self.log.key).checkpoint.digest()

    def _outbox(self) -> list[tuple[int, bytes]]:
        query = (
            select(EpochStatementRow.id, EpochStatementRow.envelope)
            .where(EpochStatementRow.leaf.is_(None))
            .order_by(EpochStatementRow.id)
            .limit(PAGE)
        )
        with reading(self.engine) as session:
            return [(number, bytes(envelope)) for number, envelope in session.execute(query)]

    def _select(self) -> Select[EpochRow]:
        return select(EpochRow).where(
            EpochRow.genesis == self.contest.genesis,
            EpochRow.netuid == self.contest.netuid,
            EpochRow.competition == self.contest.competition,
        )


def claimed(session: Session, epoch: Epoch) -> EpochRow | None:
    """The epoch's row, locked for this transaction, if it is still in the state that was seen."""
    row = session.get(EpochRow, epoch.id, with_for_update=True)
    return row if row is not None and row.state == str(epoch.state) else None


def say(session: Session, epoch_id: int, kind: str, signed: tuple[str, bytes]) -> None:
    """Put a statement into the outbox."""
    digest, envelope = signed
    session.add(EpochStatementRow(epoch_id=epoch_id, kind=kind, envelope=envelope, digest=digest))
