"""Tables of what was attested: statements, lineage edges, anchors, and what guards the HTTP door.

A statement is stored once, under the SHA-256 of its payload. Nothing here is updated: a lineage that is judged again
gets another row, and the newest row counts.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, Integer, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import DIGEST, Base, Utc


class AttestationRow(Base):
    """A statement that was verified and logged. ``opens`` is the sealed statement that an opening opens."""

    __tablename__ = "attestation"
    __table_args__ = (Index("attestation_claims", "content_root", "genesis", "netuid"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(DIGEST, unique=True)
    kind: Mapped[str] = mapped_column(String(80))
    form: Mapped[str] = mapped_column(String(16), default="")
    scheme: Mapped[str] = mapped_column(String(16))
    hotkey: Mapped[str] = mapped_column(String(80), index=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    competition: Mapped[str] = mapped_column(String(512))
    content_root: Mapped[str | None] = mapped_column(DIGEST)
    opens: Mapped[str | None] = mapped_column(DIGEST)
    blob: Mapped[str] = mapped_column(DIGEST)
    log_index: Mapped[int] = mapped_column(BigInteger, index=True)
    submitted_by: Mapped[str] = mapped_column(String(80))
    received_at: Mapped[datetime] = mapped_column(Utc)


class LineageRow(Base):
    """A parent of a model, declared by a statement or only measured; of rows that agree in both, the newest counts."""

    __tablename__ = "lineage"

    id: Mapped[int] = mapped_column(primary_key=True)
    declared: Mapped[str | None] = mapped_column(DIGEST, index=True)
    parent: Mapped[str] = mapped_column(DIGEST, index=True)
    child: Mapped[str] = mapped_column(DIGEST, index=True)
    judgement: Mapped[str] = mapped_column(String(16))
    relation: Mapped[str | None] = mapped_column(String(16))
    evidence: Mapped[str | None] = mapped_column(DIGEST)
    judged_at: Mapped[datetime] = mapped_column(Utc)


class AnchorRow(Base):
    """A block that holds the digest of one of the log's checkpoints."""

    __tablename__ = "anchor"
    __table_args__ = (UniqueConstraint("digest", "genesis", "block", "extrinsic", name="anchor_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger, index=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    hotkey: Mapped[str] = mapped_column(String(64))
    block: Mapped[int] = mapped_column(BigInteger)
    extrinsic: Mapped[int] = mapped_column(BigInteger)
    added_at: Mapped[datetime] = mapped_column(Utc)


class NonceRow(Base):
    """A signed request that was accepted; kept for as long as its signature could be used again."""

    __tablename__ = "request_nonce"

    hotkey: Mapped[str] = mapped_column(String(80), primary_key=True)
    nonce: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    expires_at: Mapped[datetime] = mapped_column(Utc, index=True)


class AnswerRow(Base):
    """What was answered to a request with an Idempotency-Key."""

    __tablename__ = "request_answer"

    hotkey: Mapped[str] = mapped_column(String(80), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request: Mapped[str] = mapped_column(DIGEST)
    status: Mapped[int] = mapped_column(Integer)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    expires_at: Mapped[datetime] = mapped_column(Utc, index=True)
