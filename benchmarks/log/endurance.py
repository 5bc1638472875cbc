"""A log of a million leaves: how fast it grows, whether its proofs hold, how long a start takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log, LogView, open_checkpoint, verify_receipt
from attest.log.merkle import EMPTY_ROOT, verify_consistency
from attest.log.note import Checkpoint
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

SIGNER = Ed25519Signer(b"\x01" * 32)
ORIGIN = "log.example/benchmark"
BODY = 400  # bytes: a statement that names a few digests
SEED = 20_261_130
T = TypeVar("T")


@contextmanager
def stored(url: str) -> Iterator[DatabaseLog]:
    """The log's storage, its connections closed in the end."""
    engine = connect(url, busy_seconds=600)
    try:
        yield DatabaseLog(engine)
    finally:
        engine.dispose()


def endure(url: str, *, leaves: int, batch: int, proofs: int, seed: int = SEED) -> dict[str, float]:
    """Append, prove, verify and reopen; raises on the first proof that does not hold.

    Args:
        url: An empty database.
        leaves: How many.
        batch: Leaves in one transaction; each is followed by a signed checkpoint.
        proofs: How many random leaves and how many random pairs of sizes are proven.
        seed: Draws the leaves and what is proven.
    """
    rng = random.Random(seed)
    with stored(url) as storage:
        log = Log(storage, SIGNER, origin=ORIGIN)
        appended, given = _timed(lambda: list(_grow(log, leaves, batch, rng)))
        view = LogView(storage, log.key)
        included, _ = _timed(lambda: [_prove(view, rng.randrange(leaves), leaves) for _ in range(proofs)])
        pairs = [sorted(rng.sample(given, 2), key=lambda c: c.size) for _ in range(proofs)] if len(given) > 1 else []
        consistent, _ = _timed(lambda: [_extends(view, old, new) for old, new in pairs])
        latest = log.checkpoint()
    with stored(url) as storage:
        audited, again = _timed(lambda: Log(storage, SIGNER, origin=ORIGIN, known=[latest]))
        assert again.size() == leaves
    return {
        "leaves": leaves,
        "leaves_per_second": leaves / appended,
        "inclusion_proof_ms": 1000 * included / proofs,
        "consistency_proof_ms": 1000 * consistent / max(1, len(pairs)),
        "start_up_audit_seconds": audited,
        "audited_leaves_per_second": leaves / audited,
    }


def body(number: int, rng: random.Random) -> bytes:
    """A leaf of ``BODY`` bytes that says its own number."""
    return number.to_bytes(8, "big") + rng.randbytes(BODY - 8)


def _grow(log: Log, leaves: int, batch: int, rng: random.Random) -> Iterator[Checkpoint]:
    for start in range(0, leaves, batch):
        stop = min(start + batch, leaves)
        numbers = log.append([body(number, rng) for number in range(start, stop)])
        assert numbers == list(range(start, stop))
        yield open_checkpoint(log.checkpoint(), log=log.key).checkpoint


def _prove(view: LogView, index: int, size: int) -> None:
    proven = verify_receipt(view.prove(index).encode(), log=view.key)
    assert proven.leaf[:8] == index.to_bytes(8, "big")
    assert proven.signed.checkpoint.size == size


def _extends(view: LogView, old: Checkpoint, new: Checkpoint) -> None:
    assert old.root != EMPTY_ROOT
    verify_consistency(old.size, new.size, view.prove_consistency(old.size, new.size), old.root, new.root)


def _timed(act: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    found = act()
    return time.perf_counter() - began, found
