"""kill -9 of workers and server at random moments while submissions come in: nothing lost, nothing judged twice."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from pathlib import Path

from sqlalchemy import Engine, func, select

from forensics.store.engine import reading
from forensics.store.entries import WorkerRow

from . import checks, field
from .fleet import Fleet, fleet, opened

SEED = 20261130
LONGEST = 6.0  # seconds from one kill to the next
WITHIN, BATCHES = 0.8, 25  # by when, of the kills, every submission was made, in how many batches
AT_WORK = 0.7  # of the kills wait for a worker that works; the others may come while everything still starts
END_SECONDS = 3600.0


def kill_and_check(
    folder: Path, *, hub: Path, count: int, kills: int, database: str = "", workers: int = 0, seed: int = SEED
) -> dict[str, float]:
    """Submit ``count`` models while killing ``kills`` times; raises ``AssertionError`` on the first thing wrong.

    Args:
        folder: Empty; holds the home.
        hub: Where the checkpoints are, or are made.
        count: Submissions.
        kills: How often something is killed.
        database: URL of an empty PostgreSQL database; SQLite when empty.
        workers: Worker processes; on SQLite the server has its own.
        seed: Draws moments and victims.
    """
    rng, killed = random.Random(seed), Counter[str]()
    plan = field.make(hub, count)
    chain = field.Chain(folder / "chain.json", plan, seats=count)
    began = time.monotonic()
    with fleet(folder / "home", hub=hub, chain=folder / "chain.json", database=database, workers=workers) as running:
        with opened(running.settings) as engine:
            for number in range(1, kills + 1):
                chain.show(min(count, count * math.ceil(BATCHES * number / (WITHIN * kills)) // BATCHES))
                if rng.random() < AT_WORK:
                    _until_at_work(running, engine)
                time.sleep(rng.uniform(0, LONGEST))
                killed[_kill_one(running, rng)] += 1
                running.fill()
            chain.show(count)
            _until_finished(running, engine, count)
        seconds = time.monotonic() - began
        started = running.started
    with opened(running.settings) as engine:
        found = checks.check(engine, running.settings, plan)
    return {
        "submissions": count,
        "kills": sum(killed.values()),
        "killed_servers": killed["server"],
        "killed_workers": killed["worker"],
        "processes_started": started,
        "lost": 0,
        **found,
        "seconds": round(seconds, 1),
    }


def _kill_one(running: Fleet, rng: random.Random) -> str:
    victims = running.victims()
    while not victims:
        running.fill()
        time.sleep(0.05)
        victims = running.victims()
    kind, pid = rng.choice(victims)
    running.kill(pid)
    return kind


def _until_at_work(running: Fleet, engine: Engine) -> None:
    """Until the server listens and a worker was heard of since something was last started."""
    running.until_served()
    since, deadline = running.started_at, time.monotonic() + END_SECONDS
    query = select(func.count()).where(WorkerRow.beat_at >= since)
    while True:
        with reading(engine) as session:
            if session.execute(query).scalar_one():
                return
        assert time.monotonic() < deadline, "no worker started"
        time.sleep(0.2)


def _until_finished(running: Fleet, engine: Engine, count: int) -> None:
    """Everything judged, and the newest snapshot says so."""
    deadline = time.monotonic() + END_SECONDS
    reader = checks.client_of(running.settings, running.url)
    while True:
        running.fill()
        if checks.finished(engine, count):
            snapshot = reader.read().snapshot
            if snapshot is not None and not checks.unknown(snapshot):
                return
        assert time.monotonic() < deadline, "not everything was judged in time"
        time.sleep(0.5)
