"""Findings and verdicts in the database: said once, never changed, and judged again when something is new.

A verdict is a function of what is on record, so judging is idempotent: where the newest verdict of an entry has the
same inputs, it is returned. Two workers that judge one entry at once take turns on its row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import rfc8785
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from detectors import commit, operators
from detectors.evidence import Finding

from ..errors import NotKnown
from ..place import Clock, now
from ..policy.policy import Keeps, Policy
from ..store.engine import reading, writing
from ..store.entries import EntryRow
from ..store.verdicts import ExaminationRow, FindingRow, VerdictRow
from .judge import inputs_digest, judge
from .subject import Decision, Subject
from .verdict import Verdict, read

if TYPE_CHECKING:
    from ..store.blobs import Blobs

COPY: Final = "copy@1"
PENDING: Final = "pending"
UNAVAILABLE: Final = "unavailable"
REFUSED: Final = "refused"
_WAITING: Final = frozenset({"waiting", "parked", REFUSED})
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9._:/@+-]{0,126}")
_PAGE: Final = 400

Decisions = Callable[[str], Sequence[Decision]]
"""Decisions about an entry by its public id, oldest first, without those that were superseded."""


def undecided(_entry: str) -> Sequence[Decision]:
    """Nobody decided anything."""
    return ()


@dataclass(frozen=True)
class Recorded:
    """A verdict on record.

    Args:
        verdict: What it says.
        data: Its bytes.
        number: Its place among the verdicts of its entry, from 1.
        new: Whether this call made it.
    """

    verdict: Verdict
    data: bytes
    number: int
    new: bool


@dataclass(frozen=True)
class Current:
    """The newest submission of a hotkey, with its newest verdict, if there is one yet.

    Args:
        subject: The submission.
        verdict: Its newest verdict.
    """

    subject: Subject
    verdict: Verdict | None


class Verdicts:
    """Findings and verdicts of every subnet in one database.

    Args:
        engine: The database.
        blobs: Where evidence goes that is found here.
        policy: In force.
        clock: The time, for the record only.
        decisions: What people decided.
    """

    def __init__(
        self,
        engine: Engine,
        blobs: Blobs,
        *,
        policy: Policy,
        clock: Clock = now,
        decisions: Decisions = undecided,
    ) -> None:
        self._engine, self._blobs, self.policy = engine, blobs, policy
        self._clock, self._decisions = clock, decisions

    def record_findings(self, entry_id: int, findings: Sequence[Finding], *, detector: str = COPY) -> bool:
        """Record what a detector found in an entry, none included; it takes the place of what it found before.

        Returns:
            Whether that is news.

        Raises:
            NotKnown: No such entry.
        """
        with writing(self._engine) as session:
            _locked(session, entry_id)
            return self._record(session, entry_id, findings, detector)

    def judge(self, entry_id: int) -> Recorded:
        """The verdict on an entry as things stand; the one on record where nothing is new.

        Raises:
            NotKnown: No such entry.
        """
        with writing(self._engine) as session:
            row = _locked(session, entry_id)
            self._examine_commitment(session, row)
            findings, examined = findings_of(session, [entry_id])[entry_id]
            subject = subject_of(row, examined)
            decisions = self._decisions(row.digest)
            inputs = inputs_digest(self.policy, subject, findings, decisions)
            last = session.scalars(
                select(VerdictRow).where(VerdictRow.entry_id == entry_id).order_by(VerdictRow.number.desc()).limit(1)
            ).first()
            if last is not None and last.inputs == inputs:
                return Recorded(read(last.document, where=f"verdict {last.id}"), last.document, last.number, False)
            verdict = judge(self.policy, subject, findings, decisions=decisions)
            number = 1 if last is None else last.number + 1
            session.add(self._row(row, verdict, number))
        return Recorded(verdict, verdict.to_bytes(), number, True)

    def current(self, genesis: str, netuid: int) -> dict[str, Current]:
        """The newest submission of every hotkey of a subnet, with its newest verdict."""
        with reading(self._engine) as session:
            rows = newest_entries(session, genesis, netuid)
            verdicts = _newest_verdicts(session, [row.id for row in rows])
            examined = {
                i: e for i, (_, e) in findings_of(session, [r.id for r in rows if r.id not in verdicts]).items()
            }
        return {row.hotkey: Current(subject_of(row, examined.get(row.id, ())), verdicts.get(row.id)) for row in rows}

    def history(self, genesis: str, netuid: int, hotkey: str, revision: str) -> list[Verdict]:
        """Every verdict on a submission, oldest first."""
        query = select(VerdictRow).where(
            VerdictRow.genesis == genesis,
            VerdictRow.netuid == netuid,
            VerdictRow.hotkey == hotkey,
            VerdictRow.revision == revision,
        )
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(VerdictRow.id)).all()
            return [read(row.document, where=f"verdict {row.id}") for row in rows]

    def catch_up(self, genesis: str, netuid: int) -> int:
        """Judge again what was judged on other grounds than now: by another policy, or before something was found.

        Submissions that have no verdict yet are left to whoever works on them.

        Returns:
            How many verdicts are new.
        """
        with reading(self._engine) as session:
            rows = newest_entries(session, genesis, netuid)
            verdicts = _newest_verdicts(session, [row.id for row in rows])
            judged = [row for row in rows if row.id in verdicts]
            said = findings_of(session, [row.id for row in judged])
            behind = [r.id for r in judged if self._inputs(r, *said[r.id]) != verdicts[r.id].inputs]
        return sum(self.judge(entry).new for entry in behind)

    def examine_owners(self, genesis: str, netuid: int, coldkeys: Mapping[str, str]) -> int:
        """Where the policy limits the entries of one owner: find those beyond the limit, and judge what changed.

        Args:
            genesis: Chain.
            netuid: Subnet.
            coldkeys: Owner by hotkey, of everybody registered.

        Returns:
            How many verdicts are new.
        """
        allowed = self.policy.operators.entries
        if allowed == 0:
            return 0
        with reading(self._engine) as session:
            rows = {row.hotkey: row for row in newest_entries(session, genesis, netuid) if row.hotkey in coldkeys}
            said = findings_of(session, [row.id for row in rows.values()])
        held = [operators.Held(r.hotkey, coldkeys[r.hotkey], r.revision, r.block, r.extrinsic) for r in rows.values()]
        found = operators.further(held, allowed=allowed, newest=self.policy.operators.keeps is Keeps.NEWEST)
        for _, evidence in found.values():
            self._blobs.put(rfc8785.dumps(dict(evidence)))
        news = [
            row.id
            for hotkey, row in sorted(rows.items())
            if (hotkey in found or operators.DETECTOR in said[row.id][1])
            and self.record_findings(row.id, [found[hotkey][0]] if hotkey in found else [], detector=operators.DETECTOR)
        ]
        return sum(self.judge(entry).new for entry in news)

    def _inputs(self, row: EntryRow, findings: Sequence[Finding], examined: Iterable[str]) -> str:
        return inputs_digest(self.policy, subject_of(row, examined), findings, self._decisions(row.digest))

    def _record(self, session: Session, entry_id: int, findings: Iterable[Finding], detector: str) -> bool:
        once = {finding.digest: finding for finding in findings}
        said = json.dumps(sorted(once)).encode()
        last = session.scalars(
            select(ExaminationRow)
            .where(ExaminationRow.entry_id == entry_id, ExaminationRow.detector == detector)
            .order_by(ExaminationRow.number.desc())
            .limit(1)
        ).first()
        if last is not None and last.findings == said:
            return False
        at = self._clock()
        known = set(session.scalars(select(FindingRow.digest).where(FindingRow.entry_id == entry_id)))
        for digest, finding in sorted(once.items()):
            if digest not in known:
                session.add(_finding_row(entry_id, finding, at=at))
        number = 1 if last is None else last.number + 1
        session.add(ExaminationRow(entry_id=entry_id, detector=detector, number=number, findings=said, examined_at=at))
        session.flush()
        return True

    def _examine_commitment(self, session: Session, row: EntryRow) -> None:
        """A commitment that was refused is a finding; the policy says what it costs."""
        if row.state != REFUSED:
            return
        identity = {
            "entry": row.digest,
            "genesis": row.genesis,
            "netuid": row.netuid,
            "hotkey": row.hotkey,
            "repo": row.repo,
            "revision": row.revision,
            "block": row.block,
            "extrinsic": row.extrinsic,
        }
        finding, evidence = commit.broken(identity, why=(row.reason or commit.UNNAMED)[:200])
        self._blobs.put(rfc8785.dumps(dict(evidence)))
        self._record(session, row.id, [finding], commit.DETECTOR)

    def _row(self, row: EntryRow, verdict: Verdict, number: int) -> VerdictRow:
        return VerdictRow(
            entry_id=row.id,
            number=number,
            genesis=row.genesis,
            netuid=row.netuid,
            hotkey=row.hotkey,
            revision=row.revision,
            inputs=verdict.inputs,
            status=verdict.status.value,
            multiplier=verdict.multiplier,
            policy=verdict.policy.digest,
            document=verdict.to_bytes(),
            judged_at=self._clock(),
        )


def subject_of(row: EntryRow, examined: Iterable[str]) -> Subject:
    """An entry as the judge sees it; reasons are cut to their first word, which programs can use."""
    looked = tuple(sorted(examined))
    seen = any(detector.startswith("copy@") for detector in looked)
    return Subject(
        entry=row.digest,
        genesis=row.genesis,
        netuid=row.netuid,
        hotkey=row.hotkey,
        revision=row.revision,
        block=row.block,
        extrinsic=row.extrinsic,
        content_root=row.content_root,
        examined=looked,
        unknown=None if seen else _unknown(row),
    )


def _unknown(row: EntryRow) -> str:
    if row.state not in _WAITING:
        return PENDING
    word = (row.reason or "").partition(":")[0].strip()
    return word if _WORD.fullmatch(word) else UNAVAILABLE


def findings_of(session: Session, entries: Sequence[int]) -> dict[int, tuple[list[Finding], tuple[str, ...]]]:
    """Of each entry, the findings that its detectors stand by, and which detectors have looked at it."""
    found: dict[int, tuple[list[Finding], tuple[str, ...]]] = {entry: ([], ()) for entry in entries}
    for begin in range(0, len(entries), _PAGE):
        page = entries[begin : begin + _PAGE]
        examinations = _newest_examinations(session, page)
        rows = session.scalars(select(FindingRow).where(FindingRow.entry_id.in_(page)).order_by(FindingRow.digest))
        documents = {(row.entry_id, row.digest): row.document for row in rows}
        for entry, looked in examinations.items():
            digests = sorted({digest for digests in looked.values() for digest in digests})
            findings = [Finding.read(json.loads(documents[entry, digest])) for digest in digests]
            found[entry] = (findings, tuple(sorted(looked)))
    return found


def _newest_examinations(session: Session, entries: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    query = select(ExaminationRow).where(ExaminationRow.entry_id.in_(entries)).order_by(ExaminationRow.number)
    newest: dict[int, dict[str, list[str]]] = {}
    for row in session.scalars(query):
        newest.setdefault(row.entry_id, {})[row.detector] = json.loads(row.findings)
    return newest


def newest_entries(session: Session, genesis: str, netuid: int) -> list[EntryRow]:
    """The newest submission of every hotkey of a subnet, by hotkey."""
    order = (EntryRow.block.desc(), EntryRow.extrinsic.desc(), EntryRow.id.desc())
    place = func.row_number().over(partition_by=EntryRow.hotkey, order_by=order).label("place")
    here = select(EntryRow.id, place).where(EntryRow.genesis == genesis, EntryRow.netuid == netuid).subquery()
    query = select(EntryRow).join(here, EntryRow.id == here.c.id).where(here.c.place == 1)
    return list(session.scalars(query.order_by(EntryRow.hotkey)))


def _newest_verdicts(session: Session, entries: Sequence[int]) -> dict[int, Verdict]:
    found: dict[int, Verdict] = {}
    for begin in range(0, len(entries), _PAGE):
        page = entries[begin : begin + _PAGE]
        place = func.row_number().over(partition_by=VerdictRow.entry_id, order_by=VerdictRow.number.desc())
        newest = select(VerdictRow.id, place.label("place")).where(VerdictRow.entry_id.in_(page)).subquery()
        query = select(VerdictRow).join(newest, VerdictRow.id == newest.c.id).where(newest.c.place == 1)
        found |= {row.entry_id: read(row.document, where=f"verdict {row.id}") for row in session.scalars(query)}
    return found


def _locked(session: Session, entry_id: int) -> EntryRow:
    """The entry's row, so that its findings and verdicts are added one after the other."""
    row = session.get(EntryRow, entry_id, with_for_update=True)
    if row is None:
        raise NotKnown("no such entry", got=entry_id)
    return row


def _finding_row(entry_id: int, finding: Finding, *, at: object) -> FindingRow:
    return FindingRow(
        entry_id=entry_id,
        digest=finding.digest,
        detector=finding.detector,
        code=finding.code,
        subject=finding.subject.name[:400],
        document=rfc8785.dumps(dict(finding.document())),
        found_at=at,
    )
