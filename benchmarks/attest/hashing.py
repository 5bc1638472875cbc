"""Ownership's one read of a model against SHA-256 alone over the same bytes, in turns, so that both meet one load.

Two rivals. ``one stream`` is what ``sha256sum`` does: one file after the other, on one thread. ``two threads`` digests
two files at once, where there are two. Ownership needs two digests of every byte (of the file for the model signing
root, of the tensor for the content roots), which two cores do side by side; so it has no core left to win against
``two threads`` on several files, and takes twice as long there at best.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from forensics.claims.measure import measure

CHUNK = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """Seconds of one turn, and CPU seconds of ownership's part."""

    one_stream: float
    two_threads: float
    ownership: float
    ownership_cpu: float


def files_of(folder: Path) -> list[Path]:
    """Every file of a checkpoint, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def take_turns(folder: Path, *, turns: int) -> list[Turn]:
    """Measure all three, so many times; the page cache is filled before."""
    files = files_of(folder)
    one_stream(files)
    return [_turn(folder, files) for _ in range(turns)]


def one_stream(files: list[Path]) -> list[str]:
    """SHA-256 of each file after the other."""
    return [_digest(file) for file in files]


def two_threads(files: list[Path]) -> list[str]:
    """SHA-256 of the files, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_digest, files))


def _turn(folder: Path, files: list[Path]) -> Turn:
    alone, _ = _timed(lambda: one_stream(files))
    together, _ = _timed(lambda: two_threads(files))
    began = time.process_time()
    owned, found = _timed(lambda: measure(folder, draw=secrets.randbelow))
    cpu = time.process_time() - began
    assert found.roots.oms is not None
    return Turn(alone, together, owned, cpu)


def _digest(file: Path) -> str:
    whole, buffer = hashlib.sha256(), bytearray(CHUNK)
    with file.open("rb", buffering=0) as source:
        while got := source.readinto(buffer):
            whole.update(memoryview(buffer)[:got])
    return whole.hexdigest()


def _timed(act: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    found = act()
    return time.perf_counter() - began, found
