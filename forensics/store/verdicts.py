"""Findings, verdicts and snapshots: what detectors said, what the policy made of it, what was signed and served.

All of it is append-only, and the database itself refuses anything else: what was said stays, and what is said later
counts. An examination names the findings that a detector stands by at that time, none included; a verdict is numbered
within its entry; a snapshot is stored as the bytes that were signed, its sequence has no gaps, and the only thing ever
written to it afterwards is its place in the log.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import DIGEST, Base, Utc


class FindingRow(Base):
    """A detector's word, once per entry and digest."""

    __tablename__ = "finding"
    __table_args__ = (UniqueConstraint("entry_id", "digest", name="finding_once"), Index("finding_code", "code"))

    id: Mapped[int] = mapped_column(primary_key=True)
    entry_id: Mapped[int | None] = mapped_column(ForeignKey("entry.id", ondelete="RESTRICT"))
    digest: Mapped[str] = mapped_column(DIGEST)
    detector: Mapped[str] = mapped_column(String(80))
    code: Mapped[str] = mapped_column(String(80))
    subject: Mapped[str] = mapped_column(String(400), index=True)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    found_at: Mapped[datetime] = mapped_column(Utc)


class ExaminationRow(Base):
    """What a detector found when it looked at an entry: digests of findings. The newest of a detector counts."""

    __tablename__ = "examination"
    __table_args__ = (UniqueConstraint("entry_id", "detector", "number", name="examination_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    entry_id: Mapped[int] = mapped_column(ForeignKey("entry.id", ondelete="RESTRICT"))
    detector: Mapped[str] = mapped_column(String(80))
    number: Mapped[int]
    findings: Mapped[bytes] = mapped_column(LargeBinary)
    examined_at: Mapped[datetime] = mapped_column(Utc)


class VerdictRow(Base):
    """A verdict, the newest of an entry counts. ``inputs`` is a digest of everything it was made from."""

    __tablename__ = "verdict"
    __table_args__ = (
        UniqueConstraint("entry_id", "number", name="verdict_once"),
        Index("verdict_subject", "genesis", "netuid", "hotkey", "revision"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    entry_id: Mapped[int] = mapped_column(ForeignKey("entry.id", ondelete="RESTRICT"))
    number: Mapped[int]
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    hotkey: Mapped[str] = mapped_column(String(64))
    revision: Mapped[str] = mapped_column(String(64))
    inputs: Mapped[str] = mapped_column(DIGEST)
    status: Mapped[str] = mapped_column(String(16))
    multiplier: Mapped[str] = mapped_column(String(32))
    policy: Mapped[str] = mapped_column(DIGEST)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    judged_at: Mapped[datetime] = mapped_column(Utc)


class SnapshotRow(Base):
    """A signed snapshot as served: the envelope's bytes. ``leaf`` is its place in the log."""

    __tablename__ = "snapshot"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "sequence", name="snapshot_sequence"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    sequence: Mapped[int] = mapped_column(BigInteger)
    block: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(DIGEST)
    content: Mapped[str] = mapped_column(DIGEST)
    envelope: Mapped[bytes] = mapped_column(LargeBinary)
    leaf: Mapped[int | None] = mapped_column(BigInteger, index=True)
    issued_at: Mapped[datetime] = mapped_column(Utc)
    expires_at: Mapped[datetime] = mapped_column(Utc)
