"""What is held in memory: replaced when a newer one is there, served on while the database is not."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import text

from attest.keys.ed25519 import Ed25519Signer
from benchmarks.load import world
from forensics.api.verdicts import newest as module
from forensics.api.verdicts.newest import CHECK_SECONDS, FRESH_SECONDS, MAX_HELD, Newest
from forensics.errors import StoreUnavailable
from forensics.snapshots.shelf import Shelf
from tests.forensics.attesting import GENESIS, NETUID, PLACE

SIGNER = Ed25519Signer(b"\1" * 32)


class Time:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Counted:
    """A shelf that says how often it was asked, and that can break or hang."""

    def __init__(self, shelf):
        self.shelf, self.looks, self.reads = shelf, 0, 0
        self.broken = False
        self.going = threading.Event()
        self.going.set()

    def newest_sequence(self, netuid):
        self.looks += 1
        self.going.wait(20)
        if self.broken:
            raise StoreUnavailable("gone")
        return self.shelf.newest_sequence(netuid)

    def newest(self, netuid):
        self.reads += 1
        return self.shelf.newest(netuid)


@pytest.fixture
def shelf(engine):
    return Counted(Shelf(engine, GENESIS))


@pytest.fixture
def seconds():
    return Time()


@pytest.fixture
def newest(shelf, seconds):
    failures = []
    found = Newest(shelf, clock=seconds, failed=failures.append)
    found.failures = failures
    yield found
    shelf.going.set()
    found.close()


def publish(engine, sequence, **how):
    world.publish(engine, SIGNER, uids=3, sequence=sequence, place=PLACE, **how)


def get(newest, netuid=NETUID):
    return asyncio.run(newest.get(netuid))


def settled(newest):
    """Until no look is under way."""
    for look in list(newest._looks.values()):
        look.future.exception(20)


def test_it_is_read_once_and_looked_after_cheaply(engine, newest, shelf, seconds):
    publish(engine, 1)
    held = get(newest)
    assert held.stored.sequence == 1
    for _ in range(100):
        assert get(newest) is held
    assert (shelf.looks, shelf.reads) == (1, 1)
    for _ in range(5):
        seconds.now += 2 * CHECK_SECONDS
        assert get(newest) is held
        settled(newest)
    assert (shelf.looks, shelf.reads) == (6, 1)


def test_a_newer_one_is_served_soon(engine, newest, seconds):
    publish(engine, 1)
    assert get(newest).stored.sequence == 1
    publish(engine, 2)
    assert get(newest).stored.sequence == 1
    seconds.now += 2 * CHECK_SECONDS
    assert get(newest).stored.sequence == 1  # not waited for
    settled(newest)
    assert get(newest).stored.sequence == 2


def test_after_a_silence_the_first_asker_gets_the_newest(engine, newest, seconds):
    publish(engine, 1)
    get(newest)
    publish(engine, 2)
    seconds.now += 100 * FRESH_SECONDS
    assert get(newest).stored.sequence == 2


def test_without_the_database_what_is_held_is_served_on(engine, newest, shelf, seconds):
    publish(engine, 1)
    held = get(newest)
    shelf.broken = True
    for _ in range(3):
        seconds.now += 100
        assert get(newest) is held
    assert len(newest.failures) == 3
    shelf.broken = False
    publish(engine, 2)
    seconds.now += 100
    assert get(newest).stored.sequence == 2


def test_a_database_that_hangs_delays_nobody_for_long(engine, newest, shelf, seconds, monkeypatch):
    publish(engine, 1)
    held = get(newest)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    shelf.going.clear()
    seconds.now += 100
    assert get(newest) is held
    seconds.now += 100
    looks = shelf.looks
    for _ in range(20):
        assert get(newest) is held
    assert shelf.looks == looks  # nobody starts another look behind the one that hangs


def test_with_nothing_held_and_no_database_it_says_so(newest, shelf):
    shelf.broken = True
    with pytest.raises(StoreUnavailable):
        get(newest)


def test_asking_for_every_subnet_fills_no_memory(newest, shelf):
    for netuid in range(MAX_HELD + 50):
        assert get(newest, netuid) is None
    assert len(newest._seen) <= MAX_HELD


def test_a_subnet_with_verdicts_outlives_those_without(engine, newest):
    publish(engine, 1)
    get(newest)
    for netuid in range(200, 200 + MAX_HELD):
        get(newest, netuid)
    assert newest.at_hand(NETUID) is not None or NETUID in newest._seen


def test_too_many_looks_under_way_are_refused(newest, shelf, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(module, "MAX_LOOKS", 3)
    shelf.going.clear()
    for netuid in range(3):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            get(newest, netuid)
    with pytest.raises(StoreUnavailable, match="too many"):
        get(newest, 4)


def test_one_subnet_served_means_no_other_is_looked_up(engine, shelf, seconds):
    only = Newest(shelf, only=NETUID, clock=seconds)
    assert get(only, NETUID + 1) is None
    assert shelf.looks == 0
    only.close()


def test_what_is_not_in_the_log_yet_is_not_served(engine, newest, seconds):
    publish(engine, 1)
    publish(engine, 2, leaf=None)
    assert get(newest).stored.sequence == 1
    with engine.begin() as connection:
        connection.execute(text("UPDATE snapshot SET leaf = 7 WHERE sequence = 2"))
    seconds.now += 100
    assert get(newest).stored.sequence == 2


def test_bytes_that_are_no_snapshot_are_not_served(engine, newest, seconds):
    publish(engine, 1)
    held = get(newest)
    with engine.begin() as connection:
        same = "genesis, netuid, 2, block, digest, content, :junk, 9, issued_at, expires_at"
        copied = f"INSERT INTO snapshot SELECT 99, {same} FROM snapshot WHERE sequence = 1"  # noqa: S608 - our own
        connection.execute(text(copied), {"junk": b"{}"})
    seconds.now += 100
    assert get(newest) is held
    assert type(newest.failures[0]).__name__ == "StoreCorrupt"
