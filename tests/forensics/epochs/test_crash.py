"""A life that is cut off at every transaction in turn, by a kill or by a full disk, and then lived again."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from attest.seeds.beacon import QUICKNET
from attest.seeds.verify import verify
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.machine import State
from forensics.epochs.public import epoch_file
from forensics.errors import StoreUnavailable

from .simulated import GENERATOR, PLAN, START, SimulatedChain, round_in, service

FORK = multiprocessing.get_context("fork")
SCHEDULE = Schedule(round_in(1200), 100, 50)
TIMES = (START, QUICKNET.time_of(SCHEDULE.mix) + 12, QUICKNET.time_of(SCHEDULE.mix + 50) + 12)
KILLED = 9
TRANSACTIONS = 24
"""A life has fewer."""
EACH = [number if number % 6 == 3 else pytest.param(number, marks=pytest.mark.slow) for number in range(TRANSACTIONS)]


def live(url, folder, cut=None):
    """Everything that is to be done, as somebody would ask for it again."""
    chain = SimulatedChain(folder)
    rotation = service(url, chain)
    if cut is not None:
        event.listen(rotation.shelf.engine, "commit", cut)
    try:
        parts = {"plan": PLAN, "generator": GENERATOR, "schedule": SCHEDULE, "count": 1}
        commit(rotation.shelf, rotation.world, rotation.chain.moment(), **parts)
        for time in TIMES:
            chain.time = max(chain.time, time)
            rotation.advance()
        return rotation.shelf.epoch(0), epoch_file(rotation.shelf, 0), rotation
    finally:
        rotation.shelf.engine.dispose()


def after(number, act):
    """A hook that does ``act`` instead of the commit of this number."""
    left = [number]

    def hook(connection):
        left[0] -= 1
        if left[0] < 0:
            act()

    return hook


def full():
    raise OperationalError("COMMIT", {}, sqlite3.OperationalError("database or disk is full"))


def lived_again(url, folder):
    """The life after the accident: whole, said once, and it verifies."""
    epoch, file, rotation = live(url, folder)
    assert epoch.state is State.REVEALED
    report = verify(file, key=rotation.shelf.log.key, now=TIMES[-1], network=rotation.world.network)
    assert report.complete, report.links
    assert rotation.shelf.log.size() == 6, "commitment, four steps, reveal: each once"
    assert len(SimulatedChain(folder).read("anchors", [])) == 1


@pytest.mark.parametrize("number", EACH)
def test_killed_before_any_transaction_is_done(tmp_path, number):
    url = f"sqlite:///{tmp_path}/db"
    process = FORK.Process(target=live, args=(url, tmp_path, after(number, lambda: os._exit(KILLED))))
    process.start()
    process.join()
    assert process.exitcode in (0, KILLED)
    lived_again(url, tmp_path)


@pytest.mark.parametrize("number", EACH)
def test_a_full_disk_at_any_transaction(tmp_path, number):
    url = f"sqlite:///{tmp_path}/db"
    with contextlib.suppress(StoreUnavailable):  # and nothing else
        live(url, tmp_path, after(number, full))
    lived_again(url, tmp_path)


def test_there_are_no_more_transactions_than_are_tried(tmp_path):
    seen = []
    live(f"sqlite:///{tmp_path}/db", tmp_path, seen.append)
    assert 6 < len(seen) < TRANSACTIONS
