"""What was seen on chain: who is registered where, what was committed, which hotkeys were swapped.

Everything is keyed by genesis and subnet, and named by a final block. Rows are added and closed, never changed in
meaning: a uid that another hotkey takes closes one row and opens the next, so that old verdicts keep their subject.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import Base, Utc


class SyncRow(Base):
    """How far a subnet was read: the first block that was looked at, and the newest that was taken in whole."""

    __tablename__ = "chain_sync"

    genesis: Mapped[str] = mapped_column(String(66), primary_key=True)
    netuid: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    started: Mapped[int] = mapped_column(BigInteger)
    block: Mapped[int] = mapped_column(BigInteger)
    block_hash: Mapped[str] = mapped_column(String(66))
    head: Mapped[int] = mapped_column(BigInteger)
    synced_at: Mapped[datetime] = mapped_column(Utc)


class NeuronRow(Base):
    """A hotkey's time on a uid under one owner; ``until`` is null while it lasts. ``registrant``: who registered it."""

    __tablename__ = "neuron"
    __table_args__ = (
        UniqueConstraint("genesis", "netuid", "uid", "hotkey", "registered", "since", name="neuron_once"),
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
    registrant: Mapped[str | None] = mapped_column(String(64))
    since: Mapped[int] = mapped_column(BigInteger)
    until: Mapped[int | None] = mapped_column(BigInteger)


class CommitRow(Base):
    """A commitment as the chain showed it, whatever it says; what it means is the grammar's to decide.

    One account committing to the same data twice in one block is one row. ``extrinsic`` is the chain's word where
    ``exact``; ``sealed_block`` and ``sealed_extrinsic`` say where a reveal had been committed to, where that is known.
    """

    __tablename__ = "chain_commit"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "hotkey", "block", "digest", name="chain_commit_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    hotkey: Mapped[str] = mapped_column(String(64))
    block: Mapped[int] = mapped_column(BigInteger)
    extrinsic: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str] = mapped_column(String(16))
    data: Mapped[bytes] = mapped_column(LargeBinary)
    digest: Mapped[str] = mapped_column(String(64))
    exact: Mapped[bool]
    sealed_block: Mapped[int | None] = mapped_column(BigInteger)
    sealed_extrinsic: Mapped[int | None] = mapped_column(BigInteger)
    reveal_round: Mapped[int | None] = mapped_column(BigInteger)
    seen_at: Mapped[datetime] = mapped_column(Utc)


class SwapRow(Base):
    """A hotkey that was replaced by another on a subnet; not ``exact`` where only its effect was seen."""

    __tablename__ = "hotkey_swap"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "old", "new", "block", name="hotkey_swap_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    old: Mapped[str] = mapped_column(String(64))
    new: Mapped[str] = mapped_column(String(64))
    block: Mapped[int] = mapped_column(BigInteger)
    extrinsic: Mapped[int] = mapped_column(BigInteger)
    exact: Mapped[bool]


class GapRow(Base):
    """Blocks that were never read: what was overwritten in them is not known, and neither is what was not.

    ``hotkeys`` is a JSON list of those whose every kept reveal is from within, so that earlier ones may be lost.
    """

    __tablename__ = "chain_gap"
    __table_args__ = (UniqueConstraint("genesis", "netuid", "first", "last", name="chain_gap_once"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    first: Mapped[int] = mapped_column(BigInteger)
    last: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str] = mapped_column(String(200))
    hotkeys: Mapped[str] = mapped_column(Text)
    found_at: Mapped[datetime] = mapped_column(Utc)
