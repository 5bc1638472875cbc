"""Webhooks: who wants to be told of changed verdicts, what is to be told, and how far telling came.

A message is written in the transaction that notes a snapshot as announced, so none is lost and none is written twice;
it is sent until it was received or given up on, so it may be received twice.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import Base, Utc


class HookRow(Base):
    """A subscription. ``sealed`` is its secret, encrypted; ``failures`` counts messages given up on in a row."""

    __tablename__ = "hook"
    __table_args__ = (Index("hook_owner", "hotkey"), Index("hook_subnet", "genesis", "netuid"))

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    hotkey: Mapped[str] = mapped_column(String(64))
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    url: Mapped[str] = mapped_column(String(2000))
    only: Mapped[str] = mapped_column(Text)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    made_at: Mapped[datetime] = mapped_column(Utc)
    failures: Mapped[int] = mapped_column(default=0)
    ended_at: Mapped[datetime | None] = mapped_column(Utc)
    ended_why: Mapped[str | None] = mapped_column(String(400))


class MessageRow(Base):
    """One message for one subscription; ``due_at`` is null when it was received or given up on."""

    __tablename__ = "hook_message"
    __table_args__ = (
        UniqueConstraint("hook_id", "sequence", name="hook_message_once"),
        Index("hook_message_due", "due_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    hook_id: Mapped[int] = mapped_column(ForeignKey("hook.id", ondelete="RESTRICT"))
    sequence: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    made_at: Mapped[datetime] = mapped_column(Utc)
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime | None] = mapped_column(Utc)
    received_at: Mapped[datetime | None] = mapped_column(Utc)
    outcome: Mapped[str | None] = mapped_column(String(200))


class AnnouncedRow(Base):
    """The newest snapshot of a subnet that was announced."""

    __tablename__ = "hook_announced"

    genesis: Mapped[str] = mapped_column(String(66), primary_key=True)
    netuid: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sequence: Mapped[int] = mapped_column(BigInteger)
