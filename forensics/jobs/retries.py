"""When something that could not be had is tried again, and when it is given up: unknown is not guilty.

A hub shows a new commit late, answers 429 and 503, and gated repositories open. So nothing is final at once, except
what no waiting can change: a repository above the size limit, a checkpoint that cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

DELAYS = tuple(timedelta(minutes=m) for m in (1, 2, 5, 15, 60, 360, 1440))
"""Before each further attempt; the first four cover the hub's first quarter of an hour. After the last: parked."""
OURS = timedelta(minutes=1)
"""Before trying again what failed through no fault of the entry: a full disk, a database that is away."""
FINAL = frozenset({"too_large", "refused", "malformed_checkpoint", "unsupported_checkpoint", "checkpoint_too_large"})
NOT_THEIRS = frozenset({"disk_full", "store_unavailable"})
CHILD_DEATHS = 3
"""Attempts at a checkpoint that kills, exhausts or hangs the child that reads it."""
WORKER_DEATHS = 10
"""Beginnings of one step that neither ended nor failed. Workers are also killed for other reasons, so it takes many."""


@dataclass(frozen=True)
class Again:
    """Try again after ``delay``; ``counts`` where it was the entry's failure."""

    delay: timedelta
    counts: bool = True


def after(code: str, attempts: int, *, retry_after: float | None = None) -> Again | None:
    """What to do after a failure; None is to give up.

    Args:
        code: What failed.
        attempts: Failures before this one.
        retry_after: Seconds that the other side asked for.
    """
    if code in FINAL:
        return None
    if code in NOT_THEIRS:
        return Again(OURS, counts=False)
    most = CHILD_DEATHS if code == "reader_died" else len(DELAYS) + 1
    if attempts + 1 >= most:
        return None
    delay = DELAYS[min(attempts, len(DELAYS) - 1)]
    if retry_after is not None:
        delay = max(delay, min(timedelta(seconds=retry_after), DELAYS[-1]))
    return Again(delay)
