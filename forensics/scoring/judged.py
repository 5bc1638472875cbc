"""What verdicts say about the field: multipliers, and which models belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError
from .field import Submission
from .policy import Policy

if TYPE_CHECKING:
    from attest.predicates.verdict import UidVerdict

    from ..client import Lookup, Reading


@dataclass(frozen=True)
class Judged:
    """One submission as verdicts see it.

    Args:
        multiplier: In [0, 1]; 1 where nothing is known.
        known: Whether there is a verdict on this hotkey with this revision.
        why: The verdict in words, or why there is none.
        uid: The hotkey's seat at the snapshot's block.
        names: What connects it to others; see ``spending``.
    """

    multiplier: float
    known: bool
    why: str
    uid: int | None
    names: tuple[str, ...]


def judge(submissions: Sequence[Submission], reading: Reading | None, policy: Policy) -> tuple[Judged, ...]:
    """Look everybody up, by hotkey and revision."""
    snapshot = None if reading is None else reading.snapshot
    entries = () if snapshot is None else snapshot.verdicts.verdicts
    roots = {entry.content_root for entry in entries if entry.content_root is not None}
    return tuple(_judged(submission, reading, roots, policy) for submission in submissions)


def _judged(submission: Submission, reading: Reading | None, roots: set[str], policy: Policy) -> Judged:
    found = _lookup(submission, reading)
    names = [f"hotkey:{submission.hotkey}", f"model:{submission.hotkey}:{submission.revision}"]
    if found is not None and found.known and found.verdict is not None:
        names += _connections(found.verdict, roots)
    elif policy.unjudged == "together":
        names.append("unjudged")
    seat = None
    if reading is not None and reading.snapshot is not None:
        entry = reading.snapshot.by_hotkey.get(submission.hotkey)
        seat = None if entry is None else entry.uid
    if found is None:
        why = "no verdicts given" if reading is None else "not an address, so there is no verdict"
        return Judged(1.0, known=False, why=why, uid=seat, names=tuple(names))
    return Judged(found.multiplier, known=found.known, why=found.why, uid=seat, names=tuple(names))


def _lookup(submission: Submission, reading: Reading | None) -> Lookup | None:
    if reading is None:
        return None
    try:
        return reading.multiplier(submission.hotkey, submission.revision)
    except UsageError:  # a name instead of an address, in a rehearsal
        return None


def _connections(verdict: UidVerdict, roots: set[str]) -> Iterator[str]:
    """Names of the content, of parents that are themselves submissions, of the operator, and of whom it copies."""
    if verdict.content_root is not None:
        yield f"content:{verdict.content_root}"
    for parent in verdict.parents:
        if parent.digest in roots:
            yield f"content:{parent.digest}"
    if verdict.cluster is not None:
        yield f"cluster:{verdict.cluster}"
    for reason in verdict.reasons:
        if reason.of is not None:
            yield f"model:{reason.of.hotkey}:{reason.of.revision}"
