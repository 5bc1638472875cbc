"""What an administrator can do behind the triggers, and whether the next start refuses to sign over it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sqlalchemy import Connection, Engine, text

from attest.keys.interface import Signer
from attest.log import Log
from attest.log.errors import LogTampered
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

from .endurance import SEED

COLUMNS = {
    "log_leaf": ("body", "leaf_hash"),
    "log_tile": ("hashes", "root"),
    "log_checkpoint": ("root", "note"),
}


def tamper_and_check(url: str, signer: Signer, *, origin: str, rows: int, seed: int = SEED) -> dict[str, float]:
    """Change one byte of random rows, one at a time, and remove some; raises where a start accepts it.

    Args:
        url: A log that was written and is not running.
        signer: Its key.
        origin: Its name.
        rows: How many rows of each column are tried.
        seed: Draws them.

    Returns:
        How many changes were tried and refused; every one is undone before the next.
    """
    rng = random.Random(seed)
    engine = connect(url)
    tried = 0
    try:
        with engine.begin() as connection:
            _drop_triggers(connection)
        for table, columns in COLUMNS.items():
            for column in columns:
                for where in _rows(engine, table, rows, rng):
                    _change(engine, table, column, where, rng)
                    _refused(engine, signer, origin, f"{table}.{column} {where}")
                    _restore(engine, table, column)
                    tried += 1
        Log(DatabaseLog(engine), signer, origin=origin)
    finally:
        engine.dispose()
    return {"rows_tampered": tried, "starts_refused": tried}


def _drop_triggers(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        for table in COLUMNS:
            connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER ALL"))
    else:
        for table in COLUMNS:
            for verb in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER {table}_no_{verb}"))
    for table in COLUMNS:
        connection.execute(text(f"CREATE TABLE kept_{table} AS SELECT * FROM {table} WHERE 1 = 0"))


def _rows(engine: Engine, table: str, rows: int, rng: random.Random) -> Iterator[str]:
    key = "level, number" if table == "log_tile" else "number"
    with engine.connect() as connection:
        keys = connection.execute(text(f"SELECT {key} FROM {table}")).all()
    for found in rng.sample(keys, min(rows, len(keys))):
        yield " AND ".join(f"{name} = {value}" for name, value in found._mapping.items())


def _change(engine: Engine, table: str, column: str, where: str, rng: random.Random) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO kept_{table} SELECT * FROM {table} WHERE {where}"))
        value = bytes(connection.execute(text(f"SELECT {column} FROM {table} WHERE {where}")).scalar_one())
        at = rng.randrange(len(value))
        changed = value[:at] + bytes([value[at] ^ (1 << rng.randrange(8))]) + value[at + 1 :]
        connection.execute(text(f"UPDATE {table} SET {column} = :value WHERE {where}"), {"value": changed})


def _restore(engine: Engine, table: str, column: str) -> None:
    key = "level = {0}.level AND k.number = {0}.number" if table == "log_tile" else "number = {0}.number"
    same = "k." + key.format(table)
    kept = f"(SELECT k.{column} FROM kept_{table} k WHERE {same})"
    with engine.begin() as connection:
        exists = f"EXISTS (SELECT 1 FROM kept_{table} k WHERE {same})"
        connection.execute(text(f"UPDATE {table} SET {column} = {kept} WHERE {exists}"))
        connection.execute(text(f"DELETE FROM kept_{table}"))


def _refused(engine: Engine, signer: Signer, origin: str, what: str) -> None:
    try:
        Log(DatabaseLog(engine), signer, origin=origin)
    except LogTampered:
        return
    raise AssertionError(f"a start accepted a changed {what}")
