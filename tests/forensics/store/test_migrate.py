from __future__ import annotations

import multiprocessing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

import forensics.results.tables  # noqa: F401 - its tables belong to the schema
from forensics.errors import StoreUnavailable
from forensics.store import migrate
from forensics.store.engine import connect
from forensics.store.schema import METADATA

FORK = multiprocessing.get_context("fork")


def start(url, gate):
    gate.wait()
    migrate.ensure(connect(url, busy_seconds=30))


def test_head_is_what_the_scripts_say():
    config = Config()
    config.set_main_option("script_location", str(migrate._SCRIPTS))
    assert ScriptDirectory.from_config(config).get_current_head() == migrate.HEAD


def test_migrations_make_the_schema_that_the_tables_declare(engine):
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_an_empty_database_is_made_ready_and_a_ready_one_left_alone(bare):
    assert migrate.upgrade(bare) == (None, migrate.HEAD)
    migrate.ensure(bare)
    assert migrate.upgrade(bare) == (migrate.HEAD, migrate.HEAD)


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_another_version_is_refused_and_named(engine, version):
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})
    with pytest.raises(StoreUnavailable, match=version):
        migrate.ensure(engine)


def test_a_schema_from_the_future_is_not_touched(engine):
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match="9999"):
        migrate.upgrade(engine)


def test_processes_that_start_at_once_on_an_empty_home_all_succeed(bare, database_url):
    gate = FORK.Event()
    started = [FORK.Process(target=start, args=(database_url, gate)) for _ in range(4)]
    for process in started:
        process.start()
    gate.set()
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    assert inspect(bare).has_table("posting")
