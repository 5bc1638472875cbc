"""What a log needs of a database, as an interface; ``forensics.log_store`` implements it for SQLite and PostgreSQL.

Everything is append-only. An implementation must refuse updates and deletes inside the database, must let one writer
in at a time across processes, and must have made a transaction durable before its ``with`` block ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from .tiles import StoredTile, TileSource


@dataclass(frozen=True)
class Leaf:
    """One entry: its number, its bytes, and its 32-byte leaf hash."""

    index: int
    body: bytes
    leaf_hash: bytes


@dataclass(frozen=True)
class StoredCheckpoint:
    """A signed note that was handed out, with the size and root it names."""

    size: int
    root: bytes
    note: bytes


@dataclass(frozen=True)
class Evidence:
    """Two notes that cannot both be honest, and why; its mere presence freezes the log."""

    reason: str
    first: bytes
    second: bytes


class LogReader(TileSource, Protocol):
    """One consistent view of the log."""

    def size(self) -> int:
        """Number of leaves."""

    def leaves(self, start: int, stop: int) -> Iterator[Leaf]:
        """Leaves ``start`` to ``stop``, in order; fewer when the log ends before."""

    def find(self, leaf_hashes: Sequence[bytes]) -> dict[bytes, int]:
        """Numbers of those of the leaves that are in the log."""

    def tile_count(self) -> int:
        """Number of stored tiles, of all levels."""

    def checkpoints(self) -> Iterator[StoredCheckpoint]:
        """Every checkpoint ever handed out, oldest first."""

    def latest_checkpoint(self) -> StoredCheckpoint | None:
        """The one of the largest size, and of those the newest."""

    def evidence(self) -> tuple[Evidence, ...]:
        """Why the log is frozen; empty when it is not."""


class LogWriter(LogReader, Protocol):
    """The same view with the write lock held."""

    def add_leaves(self, leaves: Sequence[Leaf]) -> None:
        """Store leaves; their numbers continue the log without a gap."""

    def add_tiles(self, tiles: Sequence[StoredTile]) -> None:
        """Store full tiles."""

    def add_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        """Store a signed note."""

    def add_evidence(self, evidence: Evidence) -> None:
        """Store evidence; there is no way to take it back."""


class LogStorage(Protocol):
    """A place for one log."""

    def reading(self) -> AbstractContextManager[LogReader]:
        """A consistent view."""

    def writing(self) -> AbstractContextManager[LogWriter]:
        """The write lock and a transaction: committed and durable when the block ends, undone when it raises."""
