"""kill -9 at random moments while two processes publish the same subnet: no gap, no number twice, no leaf too many.

What a publisher was told is written down before and after each call, so that whoever killed it knows what had been
promised. Whoever was killed is started again, as a service is.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from attest.checking import Expected, check
from attest.log import Log, verify_receipt
from attest.predicates.verdict import Verdicts as Said
from forensics.attestations.record import envelope_of
from forensics.log_store import DatabaseLog
from forensics.snapshots import Shelf
from forensics.store.blobs import Blobs
from forensics.store.engine import connect, reading
from forensics.store.verdicts import SnapshotRow
from tests.forensics.attesting import GENESIS, NETUID
from tests.forensics.verdicts.field import ORIGIN, SIGNER, Field, Seat, hotkey

FORK = multiprocessing.get_context("fork")
SECONDS = 600  # a start audits the whole log, and a busy machine is no failure
LONGEST = 0.06  # seconds from "both publish" to the kill


def publish_until_killed(url: str, folder: Path, said: Path, seed: int) -> None:
    """Publish ever changing subnets; a line before each call, a line after it."""
    chance = random.Random(seed)  # noqa: S311 - which uids are registered
    field = Field(connect(url, busy_seconds=60), Blobs((folder / "blobs").as_uri()), folder / "cache")
    with said.open("a", buffering=1) as out:
        out.write(json.dumps({"ready": True}) + "\n")
        while True:
            count = chance.randrange(1, 6)
            seats = tuple(Seat(uid, hotkey(f"{seed} {chance.randrange(9)} {uid}")) for uid in range(count))
            out.write(json.dumps({"asks": count}) + "\n")
            stored = field.publisher().publish(NETUID, time.monotonic_ns() // 1000, seats)
            out.write(json.dumps({"sequence": stored.sequence, "digest": stored.digest, "leaf": stored.leaf}) + "\n")
            time.sleep(0.001)  # SQLite's lock knows no queue


class Pair:
    """Two publishers, replaced when they die."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._files: list[Path] = []
        self._running: list[tuple[multiprocessing.process.BaseProcess, Path]] = []

    def fill(self) -> None:
        fresh = []
        while len(self._running) < 2:
            said = self._folder / f"publisher-{len(self._files):03d}"
            said.touch()
            self._files.append(said)
            told = (self._url, self._folder, said, len(self._files))
            process = FORK.Process(target=publish_until_killed, args=told)
            process.start()
            fresh.append((process, said))
            self._running.append((process, said))
        for process, said in fresh:
            deadline = time.monotonic() + SECONDS
            while said.read_text().count("digest") < 1:
                assert process.is_alive(), "a publisher ended by itself"
                assert time.monotonic() < deadline, "a publisher never published"
                time.sleep(0.005)

    def kill(self, which: int) -> str:
        """End one at once; what it was doing."""
        process, said = self._running.pop(which)
        process.kill()
        process.join()
        return next(iter((whole_lines(said) or [{"nothing": True}])[-1]))

    def end(self) -> None:
        while self._running:
            self.kill(0)

    def promised(self) -> list[dict[str, object]]:
        return [line for said in self._files for line in whole_lines(said) if "digest" in line]


def whole_lines(said: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_a_kill_at_any_moment_leaves_no_gap_and_nothing_twice(engine, database_url, tmp_path, kills):
    Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)
    engine.dispose()
    chance = random.Random(kills)  # noqa: S311 - moments
    pair, during = Pair(database_url, tmp_path), []
    try:
        for _ in range(kills):
            pair.fill()
            time.sleep(chance.uniform(0, LONGEST))
            during.append(pair.kill(chance.randrange(2)))
    finally:
        pair.end()
    assert "asks" in during
    field = Field(engine, Blobs((tmp_path / "blobs").as_uri()), tmp_path / "cache")
    field.publisher().flush()
    rows = stored_rows(engine)
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    log = Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)  # audits the whole tree
    assert sorted(row[2] for row in rows) == list(range(log.size()))
    by_sequence = {row[0]: row for row in rows}
    for promise in pair.promised():
        assert by_sequence[promise["sequence"]][:3] == (promise["sequence"], promise["digest"], promise["leaf"])
    shelf = Shelf(engine, GENESIS, log=log)
    for sequence in chance.sample(range(1, len(rows) + 1), min(8, len(rows))):
        stored = shelf.find(NETUID, sequence)
        proven = verify_receipt(shelf.receipt(stored), log=log.key)
        assert envelope_of(proven.leaf, stored.envelope, where="receipt").digest == stored.digest
        said = check(stored.envelope, Said, expected=Expected(GENESIS, NETUID), trusted=[SIGNER.verifier])
        assert said.predicate.sequence == sequence


def stored_rows(engine) -> list[tuple[int, str, int]]:
    query = select(SnapshotRow.sequence, SnapshotRow.digest, SnapshotRow.leaf).order_by(SnapshotRow.sequence)
    with reading(engine) as session:
        assert session.scalar(select(func.count()).where(SnapshotRow.leaf.is_(None))) == 0
        return [tuple(row) for row in session.execute(query)]
