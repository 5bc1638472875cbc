"""The decisions, without network, disk or clock: what to ask, what of an answer to believe, what to conclude.

Everything that two shells (blocking and async) and a test need to agree on is here, as functions of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..text import printable
from .codes import Code, Problem
from .reading import Reading, State, partial
from .snapshot import Refused, Snapshot, Trust, verify

MAX_BODY: Final = 16 << 20
"""Bytes; ``attest.canonical.MAX_BYTES``, which a snapshot of 4,096 uids stays under."""
MAX_ETAG: Final = 256


@dataclass(frozen=True)
class Seen:
    """The newest snapshot ever seen: nothing older is believed again.

    Args:
        sequence: Its number.
        digest: Its payload's digest.
        log_size: Leaves of the log it speaks of.
        log_root: Root of that log, base64.
    """

    sequence: int
    digest: str
    log_size: int
    log_root: str

    @classmethod
    def of(cls, snapshot: Snapshot) -> Seen:
        """What is to be remembered of a snapshot."""
        log = snapshot.verdicts.log
        return cls(snapshot.sequence, snapshot.digest, log.size, log.root)


@dataclass(frozen=True)
class Held:
    """What is at hand before asking.

    Args:
        snapshot: Verified, maybe expired; None before the first.
        etag: What to ask with.
        seen: The newest ever seen; at least as new as ``snapshot``.
    """

    snapshot: Snapshot | None = None
    etag: str = ""
    seen: Seen | None = None


@dataclass(frozen=True)
class Answer:
    """What came over the network, complete."""

    status: int
    body: bytes = b""
    etag: str = ""


@dataclass(frozen=True)
class Conclusion:
    """What to hold from now on, what to tell, and bytes that prove a fault of the service."""

    held: Held
    reading: Reading
    evidence: bytes | None = None


def path(netuid: int) -> str:
    """Where snapshots of a subnet are."""
    return f"/v1/netuids/{netuid}/verdicts"


def headers(held: Held) -> dict[str, str]:
    """Headers of the request; compressed answers are not asked for, so that sizes mean what they say."""
    asked = {"Accept": "application/json", "Accept-Encoding": "identity"}
    return asked | ({"If-None-Match": held.etag} if held.etag and held.snapshot is not None else {})


def conclude(held: Held, answer: Answer | Problem, trust: Trust, now: datetime) -> Conclusion:
    """What follows from an answer, or from there being none."""
    if isinstance(answer, Problem):
        return Conclusion(held, reading(held, now, confirmed=False, problems=(answer,)))
    try:
        return _believed(held, answer, trust, now)
    except Refused as refusal:
        problem = Problem(refusal.code, refusal.detail)
        evidence = answer.body if refusal.code is Code.EQUIVOCATION else None
        return Conclusion(held, reading(held, now, confirmed=False, problems=(problem,)), evidence)


def reading(held: Held, now: datetime, *, confirmed: bool, problems: tuple[Problem, ...] = ()) -> Reading:
    """How good what is at hand is at this time.

    A clock that was set back cannot make a snapshot valid for longer than its lifetime: no time is earlier than the
    one at which the service signed the newest.
    """
    snapshot = held.snapshot
    if snapshot is None:
        nothing = () if problems else (Problem(Code.NOTHING_YET, "no snapshot was ever seen"),)
        return Reading(State.NEUTRAL, None, problems + nothing, now)
    if now < snapshot.issued_at:
        behind = f"it is {now:%Y-%m-%dT%H:%M:%SZ} here, the service signed at {snapshot.verdicts.issued_at}"
        problems += (Problem(Code.CLOCK_BEHIND, behind),)
    if max(now, snapshot.issued_at) >= snapshot.expires_at:
        expired = Problem(Code.EXPIRED, f"snapshot {snapshot.sequence} expired at {snapshot.verdicts.expires_at}")
        return Reading(State.NEUTRAL, None, (expired, *problems), now)
    problems += partial(snapshot)
    return Reading(State.FRESH if confirmed else State.CACHED, snapshot, problems, now)


def newest(mine: Held, stored: Held) -> Held:
    """The newer of what this process and the shared cache hold; what was seen by either counts for both."""
    seen = max((s for s in (mine.seen, stored.seen) if s is not None), key=lambda s: s.sequence, default=None)
    best = max((mine, stored), key=lambda held: -1 if held.snapshot is None else held.snapshot.sequence)
    if best.snapshot is not None and seen is not None and best.snapshot.sequence < seen.sequence:
        return Held(seen=seen)  # somebody saw a newer one and this copy of it is lost: ask again
    return Held(best.snapshot, best.etag, seen)


def _believed(held: Held, answer: Answer, trust: Trust, now: datetime) -> Conclusion:
    if answer.status == 304 and held.snapshot is not None and held.etag:
        return Conclusion(held, reading(held, now, confirmed=True))
    if 300 <= answer.status < 400:
        raise Refused(Code.REDIRECTED, f"HTTP status {answer.status}; redirects are not followed")
    if answer.status != 200:
        problem = Problem(Code.ERROR_STATUS, f"HTTP status {answer.status}")
        return Conclusion(held, reading(held, now, confirmed=False, problems=(problem,)))
    if len(answer.body) > MAX_BODY:
        raise Refused(Code.TOO_LARGE, f"more than {MAX_BODY} bytes")
    snapshot = verify(answer.body, trust)
    _not_older(snapshot, held.seen)
    etag = answer.etag if len(answer.etag) <= MAX_ETAG and answer.etag == printable(answer.etag) else ""
    now_held = Held(snapshot, etag, Seen.of(snapshot))
    return Conclusion(now_held, reading(now_held, now, confirmed=True))


def _not_older(snapshot: Snapshot, seen: Seen | None) -> None:
    """Refuse what contradicts the newest snapshot ever seen."""
    if seen is None:
        return
    log = snapshot.verdicts.log
    if snapshot.sequence < seen.sequence:
        raise Refused(Code.ROLLED_BACK, f"snapshot {snapshot.sequence}, and {seen.sequence} was seen before")
    if snapshot.sequence == seen.sequence and snapshot.digest != seen.digest:
        raise Refused(Code.EQUIVOCATION, f"two snapshots {seen.sequence}: {seen.digest} and {snapshot.digest}")
    if log.size < seen.log_size or (log.size == seen.log_size and log.root != seen.log_root):
        raise Refused(
            Code.EQUIVOCATION,
            f"the log had {seen.log_size} leaves and root {seen.log_root}, now {log.size} and {log.root}",
        )
