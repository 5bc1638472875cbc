from __future__ import annotations

import multiprocessing
import sqlite3

import pytest
from sqlalchemy import text

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log, NoteKey, verify_receipt
from attest.log.anchor import Anchor
from attest.log.audit import audit
from attest.log.errors import LogForked, LogTampered
from attest.log.merkle import hash_leaf, root_of
from attest.log.note import Checkpoint, open_checkpoint, sign_checkpoint
from forensics.chain.anchors import State
from forensics.errors import StoreUnavailable
from forensics.log_store import DatabaseAnchors, DatabaseLog, prepare
from forensics.store.engine import connect
from forensics.store.migrate import ensure

SIGNER = Ed25519Signer(b"\x05" * 32)
ORIGIN = "log.example/stored"
KEY = NoteKey(ORIGIN, SIGNER.verifier.public_bytes)
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def storage(bare):
    return DatabaseLog(bare)


@pytest.fixture
def second(database_url):
    """The same database, opened by another process."""
    engine = connect(database_url)
    yield DatabaseLog(engine)
    engine.dispose()


@pytest.fixture
def log(storage):
    log = Log(storage, SIGNER, origin=ORIGIN)
    log.append([f"entry {number}".encode() for number in range(300)])
    log.checkpoint()
    return log


def test_what_is_stored_is_the_tree(log, storage):
    root = root_of([hash_leaf(f"entry {number}".encode()) for number in range(300)])
    assert log.latest().checkpoint == Checkpoint(ORIGIN, 300, root)
    for index in (0, 255, 256, 299):
        assert verify_receipt(log.prove(index).encode(), log=KEY).index == index
    assert log.append([b"entry 4", b"entry 300"]) == [4, 300]
    assert log.tile("tile/0/001.p/44")[:32] == hash_leaf(b"entry 256")
    with storage.reading() as reader:
        assert audit(reader, KEY).size == 301


def test_another_start_goes_on_where_the_first_left_off(log, second):
    again = Log(second, SIGNER, origin=ORIGIN)
    assert again.append([b"later"]) == [300]
    assert log.append([b"later still"]) == [301]
    assert again.checkpoint() == log.checkpoint()


def test_evidence_is_kept_and_freezes(log, second):
    other = sign_checkpoint(Checkpoint(ORIGIN, 300, hash_leaf(b"x")), SIGNER).encode()
    with pytest.raises(LogForked):
        log.observe(other)
    again = Log(second, SIGNER, origin=ORIGIN)
    assert again.evidence()[0].second == other
    assert open_checkpoint(again.evidence()[0].first, log=KEY).checkpoint.size == 300


TABLES = ("log_leaf", "log_tile", "log_checkpoint", "log_evidence", "log_anchor", "log_schema")
COLUMNS = {
    "log_leaf": "body",
    "log_tile": "root",
    "log_checkpoint": "note",
    "log_evidence": "reason",
    "log_anchor": "state",
}


@pytest.mark.parametrize("table", TABLES)
def test_the_database_itself_refuses_to_change_or_lose_a_row(log, bare, table):
    log.append([b"one more"])
    DatabaseAnchors(bare).add(Anchor(1, 2, b"g", 3, b"h", b"d", b"b"), State.SEEN, size=4)
    with bare.begin() as connection:
        if table == "log_evidence":
            connection.execute(text("INSERT INTO log_evidence (reason, first, second) VALUES ('r', 'a', 'b')"))
    column = COLUMNS.get(table, "version")
    statements = [f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"]  # noqa: S608
    if bare.dialect.name == "postgresql":
        statements.append(f"TRUNCATE {table}")
    else:
        statements.append(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")  # noqa: S608
    for statement in statements:
        with pytest.raises(Exception, match=r"append-only|next number"), bare.begin() as connection:
            connection.execute(text(statement))


@pytest.mark.parametrize("number", [302, -1, 5])
def test_the_database_itself_refuses_a_leaf_out_of_order(log, bare, number):
    values = {"n": number, "b": b"x", "h": hash_leaf(b"x")}
    with pytest.raises(Exception, match=r"next number|append-only"), bare.begin() as connection:
        connection.execute(text("INSERT INTO log_leaf (number, body, leaf_hash) VALUES (:n, :b, :h)"), values)


@pytest.mark.parametrize("body", [b"forged", "forged", 7])
def test_a_row_changed_behind_the_triggers_is_found_at_start(tmp_path, body):
    """Shown on SQLite, where any type fits any column; what is stored is compared in the same way on PostgreSQL."""
    engine = connect(f"sqlite:///{tmp_path}/log.db")
    log = Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)
    log.append([f"entry {number}".encode() for number in range(50)])
    log.checkpoint()
    raw = sqlite3.connect(tmp_path / "log.db")
    raw.execute("DROP TRIGGER log_leaf_no_update")
    raw.execute("UPDATE log_leaf SET body = ?, leaf_hash = ? WHERE number = 41", (body, hash_leaf(b"forged")))
    raw.commit()
    raw.close()
    with pytest.raises(LogTampered):
        Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)
    engine.dispose()


def test_it_lives_beside_the_registry_and_is_made_once(bare):
    ensure(bare)
    prepare(bare)
    prepare(bare)
    ensure(bare)


def test_processes_that_start_at_once_all_succeed(bare, database_url):
    gate = FORK.Event()
    started = [FORK.Process(target=_start, args=(database_url, gate)) for _ in range(4)]
    for process in started:
        process.start()
    gate.set()
    for process in started:
        process.join(30)
    assert [process.exitcode for process in started] == [0] * 4


def _start(url, gate):
    gate.wait()
    prepare(connect(url, busy_seconds=30))


def test_another_schema_is_refused_and_named(bare):
    prepare(bare)
    with bare.begin() as connection:
        connection.execute(text("INSERT INTO log_schema VALUES (99)"))
    with pytest.raises(StoreUnavailable, match="99"):
        DatabaseLog(bare)
