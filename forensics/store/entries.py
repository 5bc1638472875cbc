"""Entries: submissions on their way from a commitment to a verdict; and who works on them.

An *entry* is the contract's Submission (genesis, netuid, hotkey, repo, revision, block, extrinsic index) as the
service works on it; its public id is a digest of these seven. It is made once, whoever reports it and how often.

Work is handed out in *turns*. An entry whose ``turn`` is above ``queued`` waits to be handed to the job queue; every
change of state names the turn it was made in, so whoever is late or was taken for dead changes nothing.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .tables import DIGEST, Base, Utc


class EntryRow(Base):
    """A submission and how far it is.

    Attributes:
        reason: ``code: text``, why it is ``unknown`` or waits.
        attempts: Times it could not be had, since it was last had.
        begun: Times a step began that neither ended nor failed: whoever worked on it died.
        turn: Which turn of work is due, or under way.
        queued: The newest turn that was handed to the job queue.
        files: Digest of the digests of its files.
        path: Folder of the files on the machine that fetched them.
        identified: Blob of what its newest comparison with the known models found.
    """

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
    begun: Mapped[int] = mapped_column(default=0)
    turn: Mapped[int] = mapped_column(default=1)
    queued: Mapped[int] = mapped_column(default=0)
    files: Mapped[str | None] = mapped_column(DIGEST)
    path: Mapped[str | None] = mapped_column(String(4096))
    identified: Mapped[str | None] = mapped_column(DIGEST)
    content_root: Mapped[str | None] = mapped_column(DIGEST, index=True)
    found_at: Mapped[datetime] = mapped_column(Utc)
    due_at: Mapped[datetime] = mapped_column(Utc)
    changed_at: Mapped[datetime] = mapped_column(Utc)


class ScanRow(Base):
    """Files that were fingerprinted, whoever submitted them, by digests of the files and of the algorithm's name."""

    __tablename__ = "scan"

    files: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    algorithm: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    content_root: Mapped[str] = mapped_column(DIGEST)
    blob: Mapped[str] = mapped_column(DIGEST)
    scanned_at: Mapped[datetime] = mapped_column(Utc)


class WorkerRow(Base):
    """A worker that is alive, or was when it was last heard of."""

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(String(120), primary_key=True)
    started_at: Mapped[datetime] = mapped_column(Utc)
    beat_at: Mapped[datetime] = mapped_column(Utc)


class TaskRow(Base):
    """A task that one worker at a time does every so often, and how it went."""

    __tablename__ = "task"

    name: Mapped[str] = mapped_column(String(80), primary_key=True)
    due_at: Mapped[datetime] = mapped_column(Utc)
    worker: Mapped[str | None] = mapped_column(String(120))
    ran_at: Mapped[datetime | None] = mapped_column(Utc)
    problem: Mapped[str | None] = mapped_column(String(400))
