"""The database: SQLite (write-ahead log) on one machine, PostgreSQL in production; one schema for both.

SQLite needs care to be safe with several processes: foreign keys are off unless asked for, a busy database fails at
once unless told to wait, and a transaction that starts reading and then writes can deadlock. So writers here take the
write lock at the start (BEGIN IMMEDIATE). No library error leaves this module raw.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session

from ..errors import BadInput, StoreCorrupt, StoreUnavailable

WAL_TRIES = 50  # switching to WAL needs the database alone and ignores the busy timeout
CACHE_KIB = 64 << 10  # pages kept between searches; the default of 2 MiB holds a hundredth of a large index
_FULL = ("full", "disk i/o", "no space", "could not extend", "could not write", "file too large", "quota")
_CORRUPT = ("malformed", "not a database", "disk image", "corrupt")


def connect(url: str, *, busy_seconds: float = 30.0) -> Engine:
    """An engine for ``url`` whose transactions are safe with several processes.

    Raises:
        BadInput: The URL cannot be understood.
        StoreUnavailable: The folder of a SQLite database cannot be made.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            _make_folder(parsed.database)
            engine = create_engine(parsed, connect_args={"timeout": busy_seconds})
            _prepare_sqlite(engine, busy_seconds)
            return engine
        options = f"-c lock_timeout={int(busy_seconds * 1000)}"
        return create_engine(
            parsed,
            pool_pre_ping=True,
            connect_args={"connect_timeout": max(2, min(int(busy_seconds), 10)), "options": options},
        )
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise BadInput(
            "cannot understand the database URL",
            where="setting database",
            got=str(error).splitlines()[0],
            expected="sqlite:///PATH or postgresql://USER@HOST/NAME",
        ) from None


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A session that sees one snapshot and writes nothing."""
    with _translated(engine), Session(engine, autoflush=False) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """A session in one transaction: all of it is committed, or nothing. SQLite's write lock is taken first."""
    with _translated(engine), Session(engine.execution_options(immediate=True)) as session, session.begin():
        yield session


@contextmanager
def translated(engine: Engine) -> Iterator[None]:
    """Turn library errors inside into the service's own."""
    with _translated(engine):
        yield


@contextmanager
def _translated(engine: Engine) -> Iterator[None]:
    where = engine.url.render_as_string(hide_password=True)
    try:
        yield
    except DBAPIError as error:
        raise _explain(error, where) from error
    except SQLAlchemyError as error:
        raise StoreUnavailable("database failed", where=where, got=_first_line(error)) from error


def _explain(error: DBAPIError, where: str) -> StoreCorrupt | StoreUnavailable:
    text = _first_line(error.orig or error)
    low = text.lower()
    if any(word in low for word in _CORRUPT):
        return StoreCorrupt("database is damaged", where=where, got=text, remedy="Restore it from a backup.")
    if "locked" in low or "busy" in low or "lock timeout" in low:
        return StoreUnavailable("another process holds the database", where=where, got=text, remedy="Try again.")
    if any(word in low for word in _FULL):
        return StoreUnavailable(
            "cannot write, nothing was changed", where=where, got=text, remedy="Free disk space or raise the limit."
        )
    if "readonly" in low or "read-only" in low or "permission" in low or "unable to open" in low:
        return StoreUnavailable("no access to the database", where=where, got=text, remedy="Check its permissions.")
    return StoreUnavailable("database failed", where=where, got=text)


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _make_folder(database: str | None) -> None:
    if not database or database == ":memory:":
        return
    try:
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            "cannot make the folder of the database",
            where=str(Path(database).parent),
            got=error.strerror or str(error),
            remedy="Set FORENSICS_HOME to a folder you may write to.",
        ) from None


def _prepare_sqlite(engine: Engine, busy_seconds: float) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves; the driver's own guesses break DDL
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        _write_ahead(cursor)
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        cursor.execute("PRAGMA synchronous = FULL")  # a claim once acknowledged survives a power cut
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch to WAL once; another process may be doing the same at this moment."""
    for attempt in range(WAL_TRIES):
        if cursor.execute("PRAGMA journal_mode").fetchone()[0] in ("wal", "memory"):
            return
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == WAL_TRIES - 1:
                raise
            time.sleep(0.02)
