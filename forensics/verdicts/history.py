"""A policy tried on history: every submission on record is judged twice, and nothing is written.

Findings and decisions are those on record, so what comes out is what would have been said, not what might be found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from ..policy.policy import Policy
from ..store.engine import reading
from ..store.entries import EntryRow
from .judge import judge
from .store import Decisions, findings_of, newest_entries, subject_of, undecided
from .subject import Subject
from .verdict import Verdict

PAGE: Final = 400


@dataclass(frozen=True)
class Said:
    """A verdict in short.

    Args:
        status: In a word.
        multiplier: Decimal text.
        reasons: Codes, most severe first.
    """

    status: str
    multiplier: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict) -> Said:
        """What a verdict says."""
        return cls(str(verdict.status), verdict.multiplier, tuple(reason.code for reason in verdict.reasons))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"status": self.status, "multiplier": self.multiplier, "reasons": list(self.reasons)}


@dataclass(frozen=True)
class Change:
    """A submission on which two policies differ.

    Args:
        subject: The submission.
        newest: Whether it is its hotkey's newest on the subnet, so that it counts now.
        before: By the old policy.
        after: By the new one.
    """

    subject: Subject
    newest: bool
    before: Said
    after: Said

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "entry": self.subject.entry,
            "netuid": self.subject.netuid,
            "hotkey": self.subject.hotkey,
            "revision": self.subject.revision or None,
            "block": self.subject.block,
            "newest": self.newest,
            "before": self.before.document(),
            "after": self.after.document(),
        }


@dataclass(frozen=True)
class Tried:
    """What trying a policy found.

    Args:
        judged: How many submissions were judged twice.
        changes: Where the two differ, by netuid, block and extrinsic index.
        keys: Where the policies themselves differ: dotted key to old and new value, None where it is absent.
    """

    judged: int
    changes: tuple[Change, ...]
    keys: Mapping[str, tuple[Any, Any]]


def attempt(
    engine: Engine,
    old: Policy,
    new: Policy,
    *,
    genesis: str | None = None,
    netuid: int | None = None,
    decisions: Decisions = undecided,
) -> Tried:
    """Judge everything on record by two policies.

    Args:
        engine: The database; only read.
        old: The policy before.
        new: The policy after.
        genesis: Only this chain.
        netuid: Only this subnet.
        decisions: What people decided.
    """
    changes, judged = [], 0
    with reading(engine) as session:
        newest = _newest(session, genesis, netuid)
        for row, findings, examined in _records(session, genesis, netuid):
            subject = subject_of(row, examined)
            decided = decisions(row.digest)
            before = Said.of(judge(old, subject, findings, decisions=decided))
            after = Said.of(judge(new, subject, findings, decisions=decided))
            judged += 1
            if before != after:
                changes.append(Change(subject, row.id in newest, before, after))
    return Tried(judged, tuple(changes), differences(old, new))


def differences(old: Policy, new: Policy) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two policies differ, with both values."""
    one, other = dict(flat(old.document())), dict(flat(new.document()))
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return {key: (one.get(key), other.get(key)) for key in keys}


def flat(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """A document's values under dotted keys."""
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _records(session: Session, genesis: str | None, netuid: int | None) -> Iterator[tuple[EntryRow, Any, Any]]:
    query = select(EntryRow)
    if genesis is not None:
        query = query.where(EntryRow.genesis == genesis)
    if netuid is not None:
        query = query.where(EntryRow.netuid == netuid)
    rows = list(session.scalars(query.order_by(EntryRow.netuid, EntryRow.block, EntryRow.extrinsic, EntryRow.id)))
    for begin in range(0, len(rows), PAGE):
        page = rows[begin : begin + PAGE]
        found = findings_of(session, [row.id for row in page])
        for row in page:
            yield (row, *found[row.id])


def _newest(session: Session, genesis: str | None, netuid: int | None) -> set[int]:
    query = select(EntryRow.genesis, EntryRow.netuid).distinct()
    places = [(g, n) for g, n in session.execute(query) if genesis in (None, g) and netuid in (None, n)]
    return {row.id for place in places for row in newest_entries(session, *place)}
