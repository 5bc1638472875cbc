"""Epochs in the database: one row each, what was said of it in order, and who fetched what when.

Secrets are sealed (``attest.seeds.seal``); neither secret nor seed nor item key is ever stored in clear. Statements are
written in the transaction that changes the state and are brought into the log afterwards (an outbox): ``leaf`` is null
until then. Nothing is deleted.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import DIGEST, Base, Utc


class EpochRow(Base):
    """An epoch: what is committed, how far it is, and the public values that have come in since."""

    __tablename__ = "epoch"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "competition", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    competition: Mapped[str] = mapped_column(String(512))
    number: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16), index=True)
    plan: Mapped[bytes] = mapped_column(LargeBinary)
    generator: Mapped[str] = mapped_column(DIGEST)
    mix_round: Mapped[int] = mapped_column(BigInteger)
    open_round: Mapped[int] = mapped_column(BigInteger)
    commitment: Mapped[str] = mapped_column(String(64), unique=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    timelock: Mapped[bytes] = mapped_column(LargeBinary)
    batch_root: Mapped[str] = mapped_column(String(64))
    batch_index: Mapped[int]
    batch_size: Mapped[int]
    batch_path: Mapped[bytes] = mapped_column(LargeBinary)
    stamp: Mapped[bytes | None] = mapped_column(LargeBinary)
    mix_signature: Mapped[bytes | None] = mapped_column(LargeBinary)
    open_signature: Mapped[bytes | None] = mapped_column(LargeBinary)
    roster: Mapped[str | None] = mapped_column(Text)
    void_reason: Mapped[str | None] = mapped_column(String(128))
    committed_at: Mapped[datetime] = mapped_column(Utc)


class EpochStatementRow(Base):
    """A statement about an epoch, as signed; each kind once."""

    __tablename__ = "epoch_statement"
    __table_args__ = (UniqueConstraint("epoch_id", "kind"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    epoch_id: Mapped[int] = mapped_column(ForeignKey("epoch.id", ondelete="RESTRICT"))
    kind: Mapped[str] = mapped_column(String(16))
    envelope: Mapped[bytes] = mapped_column(LargeBinary)
    digest: Mapped[str] = mapped_column(DIGEST)
    leaf: Mapped[int | None] = mapped_column(BigInteger, index=True)
    receipt: Mapped[bytes | None] = mapped_column(LargeBinary)


class SeedFetchRow(Base):
    """A hand-over of hidden items to a validator; written before they are given."""

    __tablename__ = "seed_fetch"

    id: Mapped[int] = mapped_column(primary_key=True)
    epoch_id: Mapped[int] = mapped_column(ForeignKey("epoch.id", ondelete="RESTRICT"), index=True)
    hotkey: Mapped[str] = mapped_column(String(80))
    at: Mapped[datetime] = mapped_column(Utc)
    items: Mapped[int]
    digest: Mapped[str] = mapped_column(DIGEST)
