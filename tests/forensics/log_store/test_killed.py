"""kill -9 at random moments while two processes append: nothing acknowledged is lost, and nothing forks."""

from __future__ import annotations

import multiprocessing
import random
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from attest.log import Log, verify_receipt
from attest.log.note import open_checkpoint
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

from . import worker

FORK = multiprocessing.get_context("fork")
SECONDS = 60


def launch(url, folder, name):
    said = folder / name
    process = FORK.Process(target=worker.main, args=(url, name, said))
    process.start()
    return process, said


def wait_until_it_appends(process, said):
    deadline = time.monotonic() + SECONDS
    while not (said.exists() and "ready" in said.read_text()):
        assert process.is_alive(), "the process could not start"
        assert time.monotonic() < deadline, "the process took too long to start"
        time.sleep(0.01)


def acknowledged(files):
    """What was acknowledged before the kill; a line cut short was not."""
    for said in files:
        for line in said.read_text().splitlines(keepends=True):
            if line.endswith("\n") and line != "ready\n":
                number, body = line[:-1].split(" ", 1)
                yield int(number), body.encode()


@contextmanager
def opened(url, known):
    engine = connect(url, busy_seconds=SECONDS)
    yield Log(DatabaseLog(engine), worker.SIGNER, origin=worker.ORIGIN, known=known)
    engine.dispose()


def kill_and_check(url: str, folder: Path, kills: int) -> None:
    rng = random.Random(20_261_130)  # noqa: S311 - moments, not secrets
    files, running, notes = [], [], []
    for kill in range(kills):
        while len(running) < 2:
            running.append(launch(url, folder, f"writer-{len(files)}"))
            files.append(running[-1][1])
        for process, said in running:
            wait_until_it_appends(process, said)
        time.sleep(rng.uniform(0, 0.15))
        process, _ = running.pop(kill % 2)
        process.kill()
        process.join()
        with opened(url, notes) as log:
            notes.append(log.checkpoint())
    for process, _ in running:
        process.kill()
        process.join()
    with opened(url, notes) as log:
        check(log, dict(acknowledged(files)), rng)


def check(log, told, rng):
    with log._storage.reading() as reader:
        held = {leaf.index: leaf.body for leaf in reader.leaves(0, reader.size())}
    assert told.items() <= held.items()
    tree = open_checkpoint(log.checkpoint(), log=log.key).checkpoint
    assert tree.size == log.size() > max(told)
    for number in rng.sample(sorted(told), 10):
        assert verify_receipt(log.prove(number).encode(), log=log.key).leaf == told[number]
    assert log.evidence() == ()


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_loses_nothing_and_forks_nothing(database_url, tmp_path, kills):
    kill_and_check(database_url, tmp_path, kills)
