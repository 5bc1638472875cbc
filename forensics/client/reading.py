"""What a validator gets: a state, why, how old, and a multiplier for whoever it asks about.

Multipliers are looked up by hotkey and revision. A uid is a seat: it is shown, and when somebody else sits there now
than when the snapshot was made this is said, but it never decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from attest.errors import AttestError
from attest.keys import ss58
from attest.predicates.verdict import Status, UidVerdict

from ..errors import UsageError
from .codes import QUIET, REFUSALS, Code, Problem
from .snapshot import Snapshot


class State(StrEnum):
    """How good a reading is."""

    FRESH = "fresh"
    """The service confirmed it just now."""
    CACHED = "cached"
    """The service's last word, not expired; it could not be asked, or its answer was not believed."""
    NEUTRAL = "neutral"
    """There is nothing to go by: every multiplier is 1 (fail open)."""


@dataclass(frozen=True)
class Scored:
    """A score to be multiplied.

    Args:
        hotkey: SS58 of any prefix.
        revision: 40 hex digits of the model that was evaluated.
        score: Finite.
        uid: Where it sits, for messages only.
    """

    hotkey: str
    revision: str
    score: float
    uid: int | None = None


@dataclass(frozen=True)
class Lookup:
    """The multiplier of one submission.

    Args:
        multiplier: In [0, 1].
        known: Whether the snapshot judges this hotkey with this revision.
        why: The verdict's status and reasons, or why there is none.
        verdict: The entry, when known.
    """

    multiplier: float
    known: bool
    why: str
    verdict: UidVerdict | None = None


@dataclass(frozen=True)
class Paid:
    """A score and what is left of it; a penalty never raises one, so what is below zero stays."""

    hotkey: str
    revision: str
    uid: int | None
    score: float
    multiplier: float
    adjusted: float
    known: bool
    why: str


@dataclass(frozen=True)
class Applied:
    """Scores after multipliers, in the order given, and what is to be said about them."""

    rows: tuple[Paid, ...]
    state: State
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """The verdicts as they can be known now.

    Args:
        state: How good this is.
        snapshot: What it rests on; None when neutral.
        problems: Everything that is not as it should be, gravest first.
        at: The time it was made, by the clock here.
    """

    state: State
    snapshot: Snapshot | None
    problems: tuple[Problem, ...]
    at: datetime

    @property
    def why(self) -> str:
        """One line for people."""
        if self.snapshot is None:
            head = "every multiplier is 1"
        else:
            head = f"snapshot {self.snapshot.sequence}, {self._age_text()}"
        return "; ".join([f"{self.state}: {head}", *map(str, self.problems)])

    @property
    def age(self) -> float | None:
        """Seconds since the service signed what is at hand; never below 0."""
        return None if self.snapshot is None else max(0.0, (self.at - self.snapshot.issued_at).total_seconds())

    @property
    def refused(self) -> bool:
        """Whether an answer came and was not believed."""
        return any(problem.code in REFUSALS for problem in self.problems)

    @property
    def loud(self) -> bool:
        """Whether somebody should look."""
        return any(problem.code not in QUIET for problem in self.problems)

    def multiplier(self, hotkey: str, revision: str | None) -> Lookup:
        """The multiplier of a submission; unknown is not guilty.

        Raises:
            UsageError: Not an address.
        """
        address = _address(hotkey)
        if self.snapshot is None:
            return Lookup(1.0, known=False, why="neutral: no snapshot")
        verdict = self.snapshot.by_hotkey.get(address)
        if verdict is None:
            return Lookup(1.0, known=False, why="unknown hotkey: not in the snapshot")
        if verdict.revision != revision:
            return Lookup(1.0, known=False, why=f"unknown revision: judged is {verdict.revision or 'no commitment'}")
        reasons = ", ".join(reason.code for reason in verdict.reasons)
        why = f"{verdict.status}: {reasons}" if reasons else str(verdict.status)
        return Lookup(float(verdict.multiplier), known=verdict.status is not Status.UNKNOWN, why=why, verdict=verdict)

    def apply(self, scores: Iterable[Scored]) -> Applied:
        """Multiply scores, by hotkey and revision.

        Raises:
            UsageError: A score that is no finite number, or a hotkey that is no address.
        """
        rows, notes = [], []
        for scored in scores:
            if not math.isfinite(scored.score):
                raise UsageError("not a finite score", where=scored.hotkey, got=scored.score)
            found = self.multiplier(scored.hotkey, scored.revision)
            adjusted = scored.score * found.multiplier if scored.score > 0 else scored.score
            rows.append(
                Paid(
                    hotkey=_address(scored.hotkey),
                    revision=scored.revision,
                    uid=scored.uid,
                    score=scored.score,
                    multiplier=found.multiplier,
                    adjusted=adjusted,
                    known=found.known,
                    why=found.why,
                )
            )
            if note := self._seat(rows[-1]):
                notes.append(note)
        return Applied(tuple(rows), self.state, tuple(notes))

    def against(self, registered: Iterable[str]) -> tuple[str, ...]:
        """Registered hotkeys that the snapshot leaves out, in order; they are unknown, multiplier 1."""
        known = {} if self.snapshot is None else self.snapshot.by_hotkey
        return tuple(hotkey for hotkey in registered if _address(hotkey) not in known)

    def document(self) -> dict[str, Any]:
        """The reading as JSON for people and logs; without the verdicts themselves."""
        snapshot = self.snapshot
        return {
            "state": str(self.state),
            "why": self.why,
            "refused": self.refused,
            "age_seconds": self.age,
            "problems": [{"code": str(p.code), "detail": p.detail} for p in self.problems],
            "snapshot": None
            if snapshot is None
            else {
                "netuid": snapshot.verdicts.netuid,
                "block": snapshot.verdicts.block,
                "sequence": snapshot.sequence,
                "digest": snapshot.digest,
                "issued_at": snapshot.verdicts.issued_at,
                "expires_at": snapshot.verdicts.expires_at,
                "policy": snapshot.verdicts.policy.write(),
            },
        }

    def _seat(self, row: Paid) -> str:
        """A word when somebody else had this seat at the snapshot's block."""
        seat = None if self.snapshot is None or row.uid is None else self.snapshot.by_uid.get(row.uid)
        if seat is None or seat.hotkey == row.hotkey:
            return ""
        return f"uid {row.uid} was {seat.hotkey}'s at block {self.snapshot.verdicts.block}; its verdict stays with it"  # type: ignore[union-attr]

    def _age_text(self) -> str:
        seconds = int(self.age or 0)
        return f"{seconds} s old" if seconds < 120 else f"{seconds // 60} min old"


def partial(snapshot: Snapshot) -> tuple[Problem, ...]:
    """The complaint about seats that the snapshot skips."""
    missing = snapshot.missing_uids
    if not missing:
        return ()
    shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    return (Problem(Code.PARTIAL, f"{len(missing)} uids have no verdict: {shown}"),)


def _address(text: str) -> str:
    try:
        return ss58.normalise(text)
    except AttestError as error:
        raise UsageError("not a hotkey", got=error.got, expected="an SS58 address") from None
