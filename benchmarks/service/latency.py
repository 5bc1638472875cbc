"""How long a commitment takes to become a signed verdict, one at a time and all at once."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from forensics.jobs import lab
from forensics.settings import Settings

from . import checks, field
from .fleet import fleet, opened

SINGLE_SECONDS = 120.0
BURST_SECONDS = 3600.0
POLL = 0.05


def one_by_one(
    folder: Path, *, hub: Path, count: int, of: int, database: str = "", workers: int = 0
) -> dict[str, float]:
    """Commit ``count`` models one after the other; each waits for its verdict as a validator reads it.

    Args:
        folder: Empty; holds the home.
        hub: Where the checkpoints are, or are made.
        count: Commitments.
        of: Size of the field they are taken from.
        database: URL of an empty PostgreSQL database; SQLite when empty.
        workers: Worker processes; on SQLite the server has its own.
    """
    plan = field.make(hub, of)
    chain = field.Chain(folder / "chain.json", plan, seats=of)
    waits, alone = [], []
    with fleet(folder / "home", hub=hub, chain=folder / "chain.json", database=database, workers=workers) as running:
        reader = checks.client_of(running.settings, running.url)
        for number in range(count + 1):
            began = time.monotonic()
            chain.show(number + 1)
            while True:
                snapshot = reader.read().snapshot
                if snapshot is not None and snapshot.by_hotkey[plan[number].hotkey].status != "unknown":
                    break
                assert time.monotonic() < began + SINGLE_SECONDS, "no verdict came"
                time.sleep(POLL)
            if number:  # the first one loads the libraries
                waits.append(time.monotonic() - began)
                alone.append(_fingerprint_seconds(hub / plan[number].repo / plan[number].revision))
    beyond = [wait - scan for wait, scan in zip(waits, alone, strict=True)]
    return {
        "commitments": count,
        "median_seconds": statistics.median(waits),
        "worst_seconds": max(waits),
        "fingerprint_seconds": statistics.median(alone),
        "worst_beyond_fingerprint": max(beyond),
    }


def burst(folder: Path, *, hub: Path, count: int, database: str = "", workers: int = 0) -> dict[str, float]:
    """Commit ``count`` models in one go and wait until a snapshot has a verdict on each of them.

    Args:
        folder: Empty; holds the home.
        hub: Where the checkpoints are, or are made.
        count: Commitments.
        database: URL of an empty PostgreSQL database; SQLite when empty.
        workers: Worker processes; on SQLite the server has its own.
    """
    plan = field.make(hub, count)
    chain = field.Chain(folder / "chain.json", plan, seats=count)
    with fleet(folder / "home", hub=hub, chain=folder / "chain.json", database=database, workers=workers) as running:
        reader = checks.client_of(running.settings, running.url)
        while reader.read().snapshot is None:
            time.sleep(POLL)
        began = time.monotonic()
        chain.show(count)
        while (snapshot := reader.read().snapshot) is None or checks.unknown(snapshot):
            assert time.monotonic() < began + BURST_SECONDS, "not everything was judged in time"
            time.sleep(0.5)
        seconds = time.monotonic() - began
        _until_quiet(running.settings, count)
    with opened(running.settings) as engine:
        found = checks.check(engine, running.settings, plan)
    return {
        "submissions": count,
        "lost": 0,
        **found,
        "seconds": round(seconds, 1),
        "a_minute": round(60 * count / seconds, 1),
    }


def _until_quiet(settings: Settings, count: int) -> None:
    """The last entry is noted as judged a moment after its verdict is."""
    with opened(settings) as engine:
        while not checks.finished(engine, count):
            time.sleep(POLL)


def _fingerprint_seconds(folder: Path) -> float:
    began = time.perf_counter()
    lab.fingerprint(str(folder))
    return time.perf_counter() - began
