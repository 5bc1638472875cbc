from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from forensics.errors import BadInput, StoreCorrupt, StoreUnavailable
from forensics.store.engine import connect, reading, writing
from forensics.store.migrate import ensure
from forensics.store.tables import PostingRow


def test_sqlite_is_safe_by_default(tmp_path):
    with connect(f"sqlite:///{tmp_path}/x.db", busy_seconds=5).connect() as connection:
        pragma = {p: connection.execute(text(f"PRAGMA {p}")).scalar() for p in
                  ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")}  # fmt: skip
    assert pragma == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 5000, "synchronous": 2}


def test_a_row_without_its_parent_is_refused(engine):
    with pytest.raises(StoreUnavailable) as caught, writing(engine) as session:
        session.add(PostingRow(key=1, model_id=999))
    assert isinstance(caught.value.__cause__, IntegrityError)


def test_a_failed_transaction_leaves_nothing(engine):
    def fail():
        with writing(engine) as session:
            session.execute(text("INSERT INTO alembic_version VALUES ('second')"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with reading(engine) as session:
        assert session.execute(text("SELECT count(*) FROM alembic_version")).scalar() == 1


def test_a_writer_that_waits_too_long_is_told_so(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    first, second = connect(url), connect(url, busy_seconds=0.1)
    ensure(first)
    with writing(first) as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(StoreUnavailable, match="another process"), writing(second) as other:
            other.execute(text("SELECT 1"))


def test_a_file_that_is_no_database_is_corrupt(tmp_path):
    (tmp_path / "x.db").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreCorrupt, match=r"x\.db"):
        ensure(connect(f"sqlite:///{tmp_path}/x.db"))


@pytest.mark.parametrize("url", ["nonsense", "oracle+none://x", "sqlite+nope://"])
def test_a_url_that_cannot_be_understood_is_bad_input(url):
    with pytest.raises(BadInput, match="database"):
        connect(url)


def test_a_home_that_cannot_be_made_is_unavailable(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="FORENSICS_HOME"):
        connect(f"sqlite:///{tmp_path}/file/home/x.db")


def test_a_server_that_is_not_there_is_unavailable_and_keeps_the_password_to_itself():
    engine = connect("postgresql+psycopg://me:hunter2@127.0.0.1:1/x", busy_seconds=1)
    with pytest.raises(StoreUnavailable) as caught:
        ensure(engine)
    assert "hunter2" not in str(caught.value)
