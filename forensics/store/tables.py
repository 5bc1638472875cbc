"""The schema: known models, who claims them, and what the search index looks up.

A *model* is content, one row per content root; a *submission* is somebody's claim to it.
One model may be claimed many times, and the earliest (block, extrinsic index) is the one that counts. Claims are
never deleted: withdrawing one stamps it. Index rows belong to a model, not to a claim.

64-bit keys are stored signed, for neither SQLite nor PostgreSQL has an unsigned 64-bit integer.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

DIGEST = String(80)  # "sha256:" and 64 hex digits; room for a longer hash


class Utc(TypeDecorator[datetime]):
    """A moment in UTC; SQLite forgets time zones, so it is given back here."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """As UTC, whatever zone the database answers in."""
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Declarative base of the store."""


class IdentityRow(Base):
    """One row, drawn when the database is made: what is derived from a database must not be used with another."""

    __tablename__ = "identity"

    value: Mapped[str] = mapped_column(String(40), primary_key=True)


class ModelRow(Base):
    """Content that is known: roots, and where its newest fingerprint lies."""

    __tablename__ = "model"

    id: Mapped[int] = mapped_column(primary_key=True)
    content_root: Mapped[str] = mapped_column(DIGEST, unique=True)
    nameless_root: Mapped[str] = mapped_column(DIGEST, index=True)
    value_root: Mapped[str] = mapped_column(DIGEST, index=True)
    algorithm: Mapped[str] = mapped_column(Text)
    family: Mapped[str] = mapped_column(String(80))
    parameters: Mapped[int] = mapped_column(BigInteger)
    blob: Mapped[str] = mapped_column(DIGEST)
    blob_size: Mapped[int] = mapped_column(BigInteger)
    added_at: Mapped[datetime] = mapped_column(Utc)

    submissions: Mapped[list[SubmissionRow]] = relationship(back_populates="model", order_by="SubmissionRow.id")


class SubmissionRow(Base):
    """One claim to a model. ``role`` is ``base`` (public, nobody's) or ``submission``."""

    __tablename__ = "submission"
    __table_args__ = (
        Index("submission_hotkey", "hotkey"),
        Index("submission_model_active", "model_id", "withdrawn_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id", ondelete="RESTRICT"))
    role: Mapped[str] = mapped_column(String(16))
    label: Mapped[str] = mapped_column(String(400), default="")
    hotkey: Mapped[str | None] = mapped_column(String(80))
    block: Mapped[int | None] = mapped_column(BigInteger)
    extrinsic: Mapped[int | None]
    repo: Mapped[str | None] = mapped_column(String(400))
    revision: Mapped[str | None] = mapped_column(String(64))
    path: Mapped[str | None] = mapped_column(String(4096))
    added_at: Mapped[datetime] = mapped_column(Utc)
    withdrawn_at: Mapped[datetime | None] = mapped_column(Utc)
    withdrawn_reason: Mapped[str | None] = mapped_column(String(400))

    model: Mapped[ModelRow] = relationship(back_populates="submissions")


class PostingRow(Base):
    """An inverted list: a 64-bit key (digest or LSH band) and a model that has it.

    Clustered by key where the database can (SQLite WITHOUT ROWID), so that a lookup is one range read.
    """

    __tablename__ = "posting"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012 - SQLAlchemy's own spelling

    key: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id", ondelete="CASCADE"), primary_key=True)


class VectorRow(Base):
    """A compact vector of a model in some space: little-endian float32, compared by brute force."""

    __tablename__ = "vector"

    space: Mapped[str] = mapped_column(String(80), primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id", ondelete="CASCADE"), primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
