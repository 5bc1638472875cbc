"""A disk that fills up in the middle of an append: refused and named, nothing half there, and the log goes on later.

The operating system's limit on the size of a file stands in for the disk: writing beyond it fails in the same calls.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import subprocess

import pytest
from sqlalchemy import event, text

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log, verify_receipt
from benchmarks.postgres import as_postgres
from forensics.errors import Exit, StoreUnavailable
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

SIGNER = Ed25519Signer(b"\x0d" * 32)
ORIGIN = "log.example/full"
BODY = 60_000
FORK = multiprocessing.get_context("fork")
MIB = 1 << 20


def entries(turn: int) -> list[bytes]:
    """Twenty entries that do not compress, the same whenever asked for."""
    rng = random.Random(turn)  # noqa: S311 - filler
    return [rng.randbytes(BODY) for _ in range(20)]


def append_on_and_on(log: Log, done: list[int]) -> None:
    for turn in range(1000):
        log.append(entries(turn))
        log.checkpoint()
        done.append(turn)


def append_until_full(log: Log) -> int:
    """How many turns were acknowledged before one failed; the failure must say what to do."""
    done: list[int] = []
    with pytest.raises(StoreUnavailable, match="nothing was changed") as caught:
        append_on_and_on(log, done)
    assert caught.value.exit == Exit.UNAVAILABLE
    assert "disk space" in caught.value.remedy
    return len(done)


def goes_on(url: str, turns: int) -> None:
    """With space again: what was acknowledged is there, what failed is not there by half, and more can be added."""
    engine = connect(url)
    log = Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)
    size = log.size()
    assert size in (20 * turns, 20 * turns + 20)  # the append was whole, or the checkpoint after it failed
    assert log.append(entries(turns)) == list(range(20 * turns, 20 * turns + 20))
    log.checkpoint()
    told = [body for turn in range(turns + 1) for body in entries(turn)]
    for number in (0, 20 * turns - 1, len(told) - 1):
        assert verify_receipt(log.prove(number).encode(), log=log.key).leaf == told[number]
    assert log.evidence() == ()
    engine.dispose()


def _fill_sqlite(url: str, said) -> None:
    engine = connect(url)
    log = Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6 * MIB, 6 * MIB))
    said.put(append_until_full(log))
    assert log.size() % 20 == 0
    assert log.leaf(0) == entries(0)[0]  # a full disk can still be read


def test_sqlite(tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    said = FORK.SimpleQueue()
    process = FORK.Process(target=_fill_sqlite, args=(url, said))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    turns = said.get()
    assert turns > 0
    goes_on(url, turns)


@pytest.mark.postgres
def test_postgresql(postgres_url):
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    engine = connect(url)
    storage = DatabaseLog(engine)
    engine.dispose()
    limit = 20 * MIB  # above the 16 MiB of a write-ahead segment, which the server may not be refused

    @event.listens_for(engine, "connect")
    def _limit(connection, _record):
        pid = str(connection.info.backend_pid)
        subprocess.run([*as_postgres(), "prlimit", "--pid", pid, f"--fsize={limit}"], check=True, timeout=30)

    turns = append_until_full(Log(storage, SIGNER, origin=ORIGIN))
    assert turns > 0
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM log_leaf")).scalar_one() % 20 == 0
    engine.dispose()
    goes_on(url, turns)
