"""Where the time of a scan goes, measured inside real scans.

Stages are timed by wrapping the functions that do them, on the thread that runs them, in CPU time: on a machine that
others use, wall time says as much about them. The yardstick is SHA-256 over the same tensors by the same number of
threads, in the same process and run, taken before and after every scan.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fingerprint import scan, streaming
from fingerprint.checkpoint import open_checkpoint
from fingerprint.content import TensorHasher
from fingerprint.invariants import embeddings, heads, probes, units
from fingerprint.sketch import linear

STAGES: tuple[tuple[str, object, str], ...] = (
    ("hash: SHA-256 per tensor", TensorHasher, "update"),
    ("convert: to float32 in blocks", streaming.MatrixPass, "_as_float"),
    ("norms: of rows", streaming, "row_norms"),
    ("sketch: linear", linear.MatrixSketch, "update"),
    ("statistics, lattice, top-k", streaming.MatrixPass, "finish"),
    ("units: choice by gate rows", units.UnitChooser, "update"),
    ("heads: value-output products", heads.ValueOutput, "update"),
    ("heads: query-key products", heads.QueryKey, "update"),
    ("heads: power sums", heads, "invariants"),
    ("probes: sums of embeddings", probes.Probes, "update"),
    ("tokens: chosen rows", embeddings.TokenRows, "update"),
)


@dataclass(frozen=True)
class Clock:
    """Seconds on the wall and on all CPUs."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Measured:
    """One run: hashing, scanning, and CPU seconds by stage."""

    hashing: Clock
    scanning: Clock
    stages: dict[str, float]


def measure(folder: Path, *, threads: int = 2) -> Measured:
    """Hash, scan, hash again; hashing is the mean of its two times.

    Args:
        folder: Checkpoint; its pages should be in the page cache.
        threads: Threads of both.
    """
    with open_checkpoint(folder) as checkpoint:
        before = _timed(lambda: hash_tensors(checkpoint, threads))
        spent: dict[str, float] = defaultdict(float)
        with _wrapped(spent):
            scanning = _timed(lambda: scan.scan(checkpoint, threads=threads))
        after = _timed(lambda: hash_tensors(checkpoint, threads))
    hashing = Clock((before.wall + after.wall) / 2, (before.cpu + after.cpu) / 2)
    return Measured(hashing, scanning, {name: spent[name] for name, _, _ in STAGES})


def hash_tensors(checkpoint: Any, threads: int) -> None:
    """SHA-256 over every tensor's bytes, largest first, on some threads."""
    names = sorted(checkpoint.tensors, key=lambda name: -checkpoint.tensors[name].numel)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda name: _hash(checkpoint, name), names))


def _hash(checkpoint: Any, name: str) -> str:
    digest = hashlib.sha256(checkpoint.raw(name)).hexdigest()
    if hasattr(checkpoint, "release"):
        checkpoint.release(name)
    return digest


def _timed(action: Callable[[], object]) -> Clock:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Clock(time.perf_counter() - wall, time.process_time() - cpu)


@contextmanager
def _wrapped(spent: dict[str, float]) -> Iterator[None]:
    """Put a stopwatch around each stage; nested stages count once, for the outer one."""
    lock, nested = threading.Lock(), threading.local()
    originals = [(owner, attribute, getattr(owner, attribute)) for _, owner, attribute in STAGES]
    for (name, owner, attribute), (_, _, original) in zip(STAGES, originals, strict=True):
        setattr(owner, attribute, _stopwatch(name, original, spent, lock, nested))
    try:
        yield
    finally:
        for owner, attribute, original in originals:
            setattr(owner, attribute, original)


def _stopwatch(
    name: str, original: Callable[..., Any], spent: dict[str, float], lock: threading.Lock, nested: threading.local
) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        if getattr(nested, "inside", False):
            return original(*args, **kwargs)
        nested.inside = True
        start = time.thread_time()
        try:
            return original(*args, **kwargs)
        finally:
            nested.inside = False
            with lock:
                spent[name] += time.thread_time() - start

    return timed
