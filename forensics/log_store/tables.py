"""Tables of the transparency log, and triggers that let rows in and never change or go.

The triggers stop mistakes and stolen application credentials, not an administrator, who can drop them: what cannot be
stopped is found at start-up (``attest.log.audit``) and by whoever kept a checkpoint. Besides updates and deletes they
refuse two things that look like inserts: leaves out of order, and SQLite's INSERT OR REPLACE, which deletes the old row
without firing delete triggers. The schema is its own, apart from the registry's: a log outlives the database beside it.

Short columns stand before long ones: SQLite keeps what does not fit a page in a chain of further pages, and reading a
column behind it walks the chain (proofs read up to 255 roots for each level of the tree).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    inspect,
    text,
)

from ..errors import StoreUnavailable
from ..store.engine import translated

SCHEMA = 1
ADVISORY_LOCK = 0x6D65726B6C65  # "merkle": one writer at a time on PostgreSQL
METADATA = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

LEAF = Table(
    "log_leaf",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("leaf_hash", LargeBinary, nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),
)
TILE = Table(
    "log_tile",
    METADATA,
    Column("level", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("root", LargeBinary, nullable=False),
    Column("hashes", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
CHECKPOINT = Table(
    "log_checkpoint",
    METADATA,
    Column("number", _NUMBER, primary_key=True),
    Column("size", BigInteger, nullable=False, index=True),
    Column("root", LargeBinary, nullable=False),
    Column("note", LargeBinary, nullable=False),
)
EVIDENCE = Table(
    "log_evidence",
    METADATA,
    Column("number", _NUMBER, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("first", LargeBinary, nullable=False),
    Column("second", LargeBinary, nullable=False),
)
ANCHOR = Table(
    "log_anchor",
    METADATA,
    Column("number", _NUMBER, primary_key=True),
    Column("block", BigInteger, nullable=False),
    Column("extrinsic", BigInteger, nullable=False),
    Column("genesis", LargeBinary, nullable=False),
    Column("netuid", Integer, nullable=False),
    Column("hotkey", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("block_hash", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
)
VERSION = Table("log_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

_EXISTS = {
    "log_leaf": "number = NEW.number OR leaf_hash = NEW.leaf_hash",
    "log_tile": "level = NEW.level AND number = NEW.number",
    "log_checkpoint": "number = NEW.number",
    "log_evidence": "number = NEW.number",
    "log_anchor": "number = NEW.number",
    "log_schema": "version = NEW.version",
}
_NEXT = "coalesce((SELECT max(number) + 1 FROM log_leaf), 0)"


def prepare(engine: Engine) -> None:
    """Make the log's tables and triggers where they are missing; safe with processes that start at once.

    Raises:
        StoreUnavailable: The database cannot be used, or its log is of another version.
    """
    with translated(engine):
        with engine.connect() as connection:
            found = _version(connection)
        if not found:
            found = _make(engine)
    if found != [SCHEMA]:
        raise StoreUnavailable(
            "the log has another schema",
            where=engine.url.render_as_string(hide_password=True),
            got=found,
            expected=SCHEMA,
            remedy="Use the version of the program that wrote it.",
        )


def _version(connection: Connection) -> list[int]:
    known = inspect(connection).has_table(VERSION.name)
    return list(connection.execute(VERSION.select()).scalars()) if known else []


def _make(engine: Engine) -> list[int]:
    with engine.execution_options(immediate=True).begin() as connection:
        lock(connection)
        if not _version(connection):  # another process may have been faster
            METADATA.create_all(connection)
            for statement in _triggers(connection.dialect.name):
                connection.exec_driver_sql(statement)
            connection.execute(VERSION.insert().values(version=SCHEMA))
        return _version(connection)


def lock(connection: Connection) -> None:
    """Keep every other writer out until the transaction ends; SQLite's BEGIN IMMEDIATE has done so already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})


def _triggers(dialect: str) -> list[str]:
    return _sqlite_triggers() if dialect == "sqlite" else _postgresql_triggers()


def _sqlite_triggers() -> list[str]:
    frozen = [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in _EXISTS
        for verb in ("UPDATE", "DELETE")
    ]
    unique = [
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "  # noqa: S608 - names are constants
        f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {exists}) "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table, exists in _EXISTS.items()
    ]
    ordered = (
        f"CREATE TRIGGER log_leaf_in_order BEFORE INSERT ON log_leaf WHEN NEW.number <> {_NEXT} "
        "BEGIN SELECT RAISE(ABORT, 'log_leaf takes the next number only'); END"
    )
    return [*frozen, *unique, ordered]


def _postgresql_triggers() -> list[str]:
    made = [
        "CREATE FUNCTION log_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' is append-only'; END $$",
        "CREATE FUNCTION log_leaf_in_order() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF NEW.number <> {_NEXT} THEN "
        "RAISE EXCEPTION 'log_leaf takes the next number only'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER log_leaf_in_order BEFORE INSERT ON log_leaf FOR EACH ROW EXECUTE FUNCTION log_leaf_in_order()",
    ]
    made += [
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION log_append_only()"
        for table in _EXISTS
    ]
    return made
