"""What was seen on chain: who is registered where, what was committed, which hotkeys were swapped.

Everything is keyed by genesis and subnet, and named by a final block. Rows are added and closed, never changed in
meaning: a uid that another hotkey takes closes one row and opens the next, so that old verdicts keep their subject.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import Base, Utc


class SyncRow(Base):
    """How far a subnet was read: its newest block that was taken in whole."""

    __tablename__ = "chain_sync"

    genesis: Mapped[str] = mapped_column(String(66), primary_key=True)
    netuid: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    block: Mapped[int] = mapped_column(BigInteger)
    block_hash: Mapped[str] = mapped_column(String(66))
    head: Mapped[int] = mapped_column(BigInteger)
    synced_at: Mapped[datetime] = mapped_column(Utc)


class NeuronRow(Base):
    """A hotkey's time on a uid; ``until`` is null while it lasts."""

    __tablename__ = "neuron"
    __table_args__ = (
        UniqueConstraint("genesis", "netuid", "uid", "hotkey", "registered", name="neuron_once"),
        Index("neuron_hotkey", "genesis", "netuid", "hotkey"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    uid: Mapped[int]
    hotkey: Mapped[str] = mapped_column(String(64))
    coldkey: Mapped[str] = mapped_column(String(64))
    registered: Mapped[int] = mapped_column(BigInteger)
    permit: Mapped[bool]
    endpoint: Mapped[str | None] = mapped_column(String(64))
    since: Mapped[int] = mapped_column(BigInteger)
    until: Mapped[int | None] = mapped_column(BigInteger)


class CommitRow(Base):
    """A commitment as the chain revealed it, whatever it says; what it means is the grammar's to decide."""

    __tablename__ = "chain_commit"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "hotkey", "block", "extrinsic", name="chain_commit_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    hotkey: Mapped[str] = mapped_column(String(64))
    block: Mapped[int] = mapped_column(BigInteger)
    extrinsic: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    seen_at: Mapped[datetime] = mapped_column(Utc)


class SwapRow(Base):
    """A hotkey that was replaced by another on a subnet."""

    __tablename__ = "hotkey_swap"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "old", "new", "block", name="hotkey_swap_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    old: Mapped[str] = mapped_column(String(64))
    new: Mapped[str] = mapped_column(String(64))
    block: Mapped[int] = mapped_column(BigInteger)
    extrinsic: Mapped[int] = mapped_column(BigInteger)
