"""Schema versions: `forensics migrate`, and of its own accord on an empty home.

Two processes may start on the same empty home. Each takes the database's own lock (SQLite's write lock, PostgreSQL's
advisory lock) before it looks, and migrates in that one transaction: the second finds the work done, and a kill in
the middle leaves the old schema. A database of another version is refused, never touched unasked.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from ..errors import StoreUnavailable
from .engine import translated

HEAD = "0008"  # the newest revision in migrations/versions; a test holds this equal to Alembic's view
ADVISORY_LOCK = 0x666F72656E736963  # "forensic": any constant that no other program uses
_SCRIPTS = Path(__file__).parent / "migrations"


def ensure(engine: Engine) -> None:
    """Make an empty database usable; refuse one of another version.

    Raises:
        StoreUnavailable: The schema is older or newer than this program.
    """
    with translated(engine):
        with engine.connect() as connection:
            found = _version(connection)
        if found == HEAD:
            return
        if found is None:
            upgrade(engine)
            return
    raise StoreUnavailable(
        "database has another schema",
        where=engine.url.render_as_string(hide_password=True),
        got=found,
        expected=HEAD,
        remedy="Run `forensics migrate`, or use the program that wrote it.",
    )


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring the schema to the newest version in one transaction; returns versions before and after."""
    with translated(engine), engine.execution_options(immediate=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        before = _version(connection)
        if before != HEAD:
            _run_alembic(connection)
        return before, _version(connection) or ""


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _run_alembic(connection: Connection) -> None:
    # Imported here: it takes a fifth of a second that only a migration should pay.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(
            "database has a schema this program does not know",
            where=connection.engine.url.render_as_string(hide_password=True),
            got=str(error).splitlines()[0],
            remedy="Use the version of the program that wrote it.",
        ) from error
