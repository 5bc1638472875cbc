"""Entries: submissions on their way from a commitment to a verdict.

An *entry* is the contract's Submission (genesis, netuid, hotkey, repo, revision, block, extrinsic index) as the
service works on it; its public id is a digest of these seven. It is made once, whoever reports it and how often.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import DIGEST, Base, Utc


class EntryRow(Base):
    """A submission and how far it is. ``reason`` says why it is ``unknown`` or waits."""

    __tablename__ = "entry"
    __table_args__ = (
        UniqueConstraint("genesis", "netuid", "hotkey", "repo", "revision", "block", "extrinsic", name="entry_once"),
        Index("entry_state", "state", "due_at"),
        Index("entry_hotkey", "genesis", "netuid", "hotkey"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(DIGEST, unique=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    hotkey: Mapped[str] = mapped_column(String(64))
    repo: Mapped[str] = mapped_column(String(400))
    revision: Mapped[str] = mapped_column(String(64))
    block: Mapped[int] = mapped_column(BigInteger)
    extrinsic: Mapped[int] = mapped_column(BigInteger)
    source: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(400))
    attempts: Mapped[int] = mapped_column(default=0)
    content_root: Mapped[str | None] = mapped_column(DIGEST, index=True)
    found_at: Mapped[datetime] = mapped_column(Utc)
    due_at: Mapped[datetime] = mapped_column(Utc)
    changed_at: Mapped[datetime] = mapped_column(Utc)
