"""``attest.log``'s storage interface over SQLAlchemy core.

A writer holds the database's write lock (SQLite: BEGIN IMMEDIATE, PostgreSQL: an advisory lock) from before it looks
until its transaction is durable, so numbers are never given twice. Readers see one snapshot and never wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, func, select

from attest.log.errors import LogTampered
from attest.log.storage import Evidence, Leaf, LogReader, LogWriter, StoredCheckpoint
from attest.log.tiles import StoredTile

from ..store.engine import translated
from .tables import CHECKPOINT, EVIDENCE, LEAF, TILE, lock, prepare

PAGE = 500  # numbers in one IN list; SQLite's oldest limit on variables is 999


class DatabaseLog:
    """One log in one database; makes its tables where they are missing.

    Args:
        engine: From ``forensics.store.engine.connect``.

    Raises:
        StoreUnavailable: The database cannot be used, or its log is of another version.
    """

    def __init__(self, engine: Engine) -> None:
        prepare(engine)
        self._engine = engine

    @contextmanager
    def reading(self) -> Iterator[LogReader]:
        """One consistent view."""
        with translated(self._engine), self._snapshot() as connection:
            yield _View(connection)

    @contextmanager
    def writing(self) -> Iterator[LogWriter]:
        """The write lock and a transaction: durable when the block ends, undone when it raises."""
        with translated(self._engine), self._engine.execution_options(immediate=True).begin() as connection:
            lock(connection)
            yield _View(connection)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection


class _View:
    """Reads and, in a writer's transaction, writes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def size(self) -> int:
        last = self._connection.execute(select(func.max(LEAF.c.number))).scalar()
        return 0 if last is None else int(last) + 1

    def leaves(self, start: int, stop: int) -> Iterator[Leaf]:
        rows = self._connection.execute(
            select(LEAF.c.number, LEAF.c.body, LEAF.c.leaf_hash)
            .where(LEAF.c.number >= start, LEAF.c.number < stop)
            .order_by(LEAF.c.number)
        )
        return (Leaf(number, _raw(body), _raw(leaf_hash)) for number, body, leaf_hash in rows)

    def find(self, leaf_hashes: Sequence[bytes]) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for begin in range(0, len(leaf_hashes), PAGE):
            page = leaf_hashes[begin : begin + PAGE]
            rows = self._connection.execute(select(LEAF.c.leaf_hash, LEAF.c.number).where(LEAF.c.leaf_hash.in_(page)))
            found.update((_raw(leaf_hash), number) for leaf_hash, number in rows)
        return found

    def leaf_hashes(self, start: int, stop: int) -> list[bytes]:
        rows = self._connection.execute(
            select(LEAF.c.leaf_hash).where(LEAF.c.number >= start, LEAF.c.number < stop).order_by(LEAF.c.number)
        )
        return [_raw(value) for value in rows.scalars()]

    def tile(self, level: int, index: int) -> bytes | None:
        found = self._connection.execute(
            select(TILE.c.hashes).where(TILE.c.level == level, TILE.c.number == index)
        ).scalar()
        return None if found is None else _raw(found)

    def tile_roots(self, level: int, start: int, stop: int) -> list[bytes]:
        rows = self._connection.execute(
            select(TILE.c.root)
            .where(TILE.c.level == level, TILE.c.number >= start, TILE.c.number < stop)
            .order_by(TILE.c.number)
        )
        return [_raw(value) for value in rows.scalars()]

    def tile_count(self) -> int:
        return int(self._connection.execute(select(func.count()).select_from(TILE)).scalar_one())

    def checkpoints(self) -> Iterator[StoredCheckpoint]:
        rows = self._connection.execute(_CHECKPOINTS.order_by(CHECKPOINT.c.number))
        return (StoredCheckpoint(size, _raw(root), _raw(note)) for size, root, note in rows)

    def latest_checkpoint(self) -> StoredCheckpoint | None:
        newest = _CHECKPOINTS.order_by(CHECKPOINT.c.size.desc(), CHECKPOINT.c.number.desc()).limit(1)
        row = self._connection.execute(newest).first()
        return None if row is None else StoredCheckpoint(row.size, _raw(row.root), _raw(row.note))

    def evidence(self) -> tuple[Evidence, ...]:
        columns = (EVIDENCE.c.reason, EVIDENCE.c.first, EVIDENCE.c.second)
        rows = self._connection.execute(select(*columns).order_by(EVIDENCE.c.number))
        return tuple(Evidence(reason, _raw(first), _raw(second)) for reason, first, second in rows)

    def add_leaves(self, leaves: Sequence[Leaf]) -> None:
        if leaves:
            rows = [{"number": leaf.index, "body": leaf.body, "leaf_hash": leaf.leaf_hash} for leaf in leaves]
            self._connection.execute(LEAF.insert(), rows)

    def add_tiles(self, tiles: Sequence[StoredTile]) -> None:
        if tiles:
            rows = [{"level": t[0], "number": t[1], "hashes": t[2], "root": t[3]} for t in tiles]
            self._connection.execute(TILE.insert(), rows)

    def add_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        values = {"size": checkpoint.size, "root": checkpoint.root, "note": checkpoint.note}
        self._connection.execute(CHECKPOINT.insert().values(**values))

    def add_evidence(self, evidence: Evidence) -> None:
        values = {"reason": evidence.reason, "first": evidence.first, "second": evidence.second}
        self._connection.execute(EVIDENCE.insert().values(**values))


_CHECKPOINTS = select(CHECKPOINT.c.size, CHECKPOINT.c.root, CHECKPOINT.c.note)


def _raw(value: object) -> bytes:
    """The bytes of a column; SQLite lets whoever tampers put text or numbers in their place."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise LogTampered("a stored value is not bytes", got=type(value).__name__)
    return bytes(value)
