from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from forensics.jobs.dbos import DbosJobs
from forensics.jobs.interface import Kind, Work

SECONDS = 30


class Counting:
    """Steps that count, and stop where they are told to."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int, int]] = []
        self.changed = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()

    def _step(self, name: str, entry: int, turn: int) -> dict:
        self.gate.wait(SECONDS)
        with self.changed:
            self.done.append((name, entry, turn))
            self.changed.notify_all()
        return {"go": True}

    def fetch(self, entry, turn):
        return self._step("fetch", entry, turn)

    def fingerprint(self, entry, turn):
        return self._step("fingerprint", entry, turn)

    def identify(self, entry, turn):
        return self._step("identify", entry, turn)

    def detect(self, entry, turn):
        return self._step("detect", entry, turn)

    def judge(self, entry, turn):
        return self._step("judge", entry, turn)

    def publish(self, entry, turn):
        return self._step("publish", entry, turn)

    def until(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.done) >= count, SECONDS), self.done


@pytest.fixture
def steps():
    return Counting()


@pytest.fixture
def jobs(bare, database_url, steps):
    made = DbosJobs(steps, database=database_url, worker="here-0", concurrency=2)
    made.start()
    yield made
    made.stop()


def work(entry: int, kind: Kind = Kind.PREPARE, priority: int = 1) -> Work:
    return Work(kind, entry, 1, "hub.example", priority)


def test_every_step_is_done_once_in_order_however_often_it_is_handed_out(jobs, steps):
    for _ in range(3):
        jobs.enqueue(work(5))
    jobs.enqueue(work(6, Kind.CONCLUDE))
    steps.until(6)
    assert [s for s, e, _ in steps.done if e == 5] == ["fetch", "fingerprint"]
    assert [s for s, e, _ in steps.done if e == 6] == ["identify", "detect", "judge", "publish"]
    jobs.enqueue(work(5))
    time.sleep(0.5)
    assert len(steps.done) == 6


def test_what_is_under_way_is_known_and_what_is_done_is_not(jobs, steps):
    steps.gate.clear()
    jobs.enqueue(work(1))
    assert jobs.alive(["prepare-1-1", "prepare-2-1"]) == {"prepare-1-1"}
    steps.gate.set()
    steps.until(2)
    deadline = time.monotonic() + SECONDS
    while jobs.alive(["prepare-1-1"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("successor", ["here-0", "there-0"])
def test_what_a_killed_worker_had_under_way_is_finished_by_itself_or_by_another(
    bare, database_url, steps, tmp_path, successor
):
    note = tmp_path / "note"
    command = [sys.executable, "-m", "tests.forensics.jobs.mortal", database_url, "here-0", str(note)]
    victim = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while not note.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    victim.kill()
    victim.wait()
    jobs = DbosJobs(steps, database=database_url, worker=successor)
    jobs.start()
    try:
        if successor != "here-0":
            assert jobs.take_over(["here-0"]) == 1
        steps.until(1)
        time.sleep(0.5)
        assert [name for name, _, _ in steps.done] == ["fingerprint"]  # fetching had ended, and is on record
    finally:
        jobs.stop()
