"""The shelf of entries: accepted once, moved by compare-and-set, never deleted.

A claim must not be judged while an earlier one of its subnet (or one of the same place) is still on its way, or a
copy would pass for the original. But what cannot be fetched must hold up nobody: an earlier claim counts as on its way
only until its first attempt failed, and no longer than ``patience``. When it becomes known after all, those judged
without it are judged again (``reopen``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Engine, and_, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ..errors import NotKnown
from ..place import Clock, now
from ..store.engine import reading, writing
from ..store.entries import EntryRow
from .claimed import OPEN, Claimed, Entry, State

REASON_LIMIT = 400
PATIENCE = timedelta(minutes=15)  # the time the hub may take to show a commit (4-detectors, section 5, item 6)


class Entries:
    """Entries of every subnet in one database.

    Args:
        engine: The database.
        clock: The time.
        patience: How long an earlier claim that is on its way is waited for.
    """

    def __init__(self, engine: Engine, *, clock: Clock = now, patience: timedelta = PATIENCE) -> None:
        self._engine, self._clock, self._patience = engine, clock, patience

    def accept(self, claimed: Claimed, source: str, *, refused: str | None = None) -> Entry:
        """The entry of a claim, made when it is not there yet.

        Args:
            claimed: The claim.
            source: Who reported it first, e.g. ``chain`` or ``api``.
            refused: Why the commitment cannot be worked on, when the caller knows.
        """
        claimed = claimed.bounded()
        known = self._find(claimed.digest)
        return known or self._make(claimed, source, refused or claimed.problem)

    def accept_all(self, claims: Sequence[tuple[Claimed, str | None]], source: str) -> int:
        """Entries of many claims, each with why it is refused (or None), in one transaction; how many are new."""
        made = 0
        with writing(self._engine) as session:
            for claimed, refused in sorted(claims, key=lambda c: c[0].position):
                claimed = claimed.bounded()
                made += self._add(session, claimed, source, refused or claimed.problem) is not None
        return made

    def get(self, digest: str) -> Entry:
        """The entry of a public id.

        Raises:
            NotKnown: There is none.
        """
        found = self._find(digest)
        if found is None:
            raise NotKnown("no such submission", got=digest[:100])
        return found

    def by_id(self, number: int) -> Entry:
        """The entry of an internal id."""
        with reading(self._engine) as session:
            row = session.get(EntryRow, number)
            if row is None:
                raise NotKnown("no such entry", got=number)
            return entry_of(row)

    def of(self, netuid: int, hotkey: str | None = None, *, genesis: str | None = None) -> list[Entry]:
        """Entries of a subnet, or of one hotkey there, in the order of their claims."""
        query = select(EntryRow).where(EntryRow.netuid == netuid)
        if hotkey is not None:
            query = query.where(EntryRow.hotkey == hotkey)
        if genesis is not None:
            query = query.where(EntryRow.genesis == genesis)
        with reading(self._engine) as session:
            return [entry_of(r) for r in session.scalars(query.order_by(EntryRow.block, EntryRow.extrinsic))]

    def counts(self) -> dict[State, int]:
        """How many entries are in each state."""
        with reading(self._engine) as session:
            rows = session.execute(select(EntryRow.state, func.count()).group_by(EntryRow.state)).all()
        return {State(state): count for state, count in rows}

    def due(self, at: datetime | None = None, *, limit: int = 1000) -> list[Entry]:
        """Entries whose next turn may be handed out: new ones first, retries later, earliest claims first."""
        at = self._clock() if at is None else at
        fresh = EntryRow.attempts > 0
        query = select(EntryRow).where(EntryRow.queued < EntryRow.turn, EntryRow.due_at <= at)
        with reading(self._engine) as session:
            query = query.order_by(fresh, EntryRow.block, EntryRow.extrinsic, EntryRow.id).limit(limit)
            rows = [entry_of(row) for row in session.scalars(query)]
            horizon = _horizon(session, at - self._patience) if any(r.state is State.IDENTIFYING for r in rows) else {}
        return [r for r in rows if r.state is not State.IDENTIFYING or not _held_up(r, horizon)]

    def unfinished(self, *, older: datetime) -> list[Entry]:
        """Entries that were handed out, are not at an end, and have not changed since ``older``."""
        working = [State.FOUND, State.FETCHING, State.FINGERPRINTING, State.IDENTIFYING, State.JUDGING, State.WAITING]
        query = select(EntryRow).where(
            EntryRow.queued == EntryRow.turn, EntryRow.state.in_(working), EntryRow.changed_at <= older
        )
        with reading(self._engine) as session:
            return [entry_of(row) for row in session.scalars(query.order_by(EntryRow.id))]

    def handed_out(self, entry: Entry) -> None:
        """Note that the entry's turn is with the job queue."""
        self._set([_is(entry.id, entry.turn)], queued=entry.turn)

    def begin(self, number: int, turn: int, state: State, *, among: Sequence[State]) -> Entry | None:
        """Start a step: count it as begun and move to ``state``; None when the turn is over or was never this one."""
        there = [_is(number, turn), EntryRow.state.in_([*among, state])]
        moved = self._set(there, state=state, begun=EntryRow.begun + 1)
        return self.by_id(number) if moved else None

    def proceed(self, number: int, turn: int, /, **fields: Any) -> bool:
        """Note what a step found out; the step ended well."""
        return self._set([_is(number, turn)], begun=0, **fields)

    def known(self, number: int, turn: int, *, content_root: str, files: str) -> bool:
        """The content is known: it waits to be compared, in a turn of its own."""
        return self.proceed(
            number,
            turn,
            content_root=content_root,
            files=files,
            state=State.IDENTIFYING,
            turn=turn + 1,
            attempts=0,
            reason=None,
            due_at=self._clock(),
        )

    def wait(self, number: int, turn: int, *, reason: str, due_at: datetime, counts: bool = True) -> bool:
        """Try again at ``due_at``; ``counts`` where it was a failure of the entry's, not of ours."""
        return self._set(
            [_is(number, turn)],
            state=State.WAITING,
            reason=reason[:REASON_LIMIT],
            turn=turn + 1,
            attempts=EntryRow.attempts + (1 if counts else 0),
            begun=0,
            due_at=due_at,
        )

    def later(self, number: int, turn: int, *, reason: str, due_at: datetime, counts: bool = True) -> bool:
        """Compare again at ``due_at``; the content is known and stays so."""
        return self._set(
            [_is(number, turn)],
            state=State.IDENTIFYING,
            reason=reason[:REASON_LIMIT],
            turn=turn + 1,
            attempts=EntryRow.attempts + (1 if counts else 0),
            begun=0,
            due_at=due_at,
        )

    def park(self, number: int, turn: int, *, reason: str) -> bool:
        """Give up: unknown, with the reason. It takes one more turn to say so in a verdict."""
        now_ = self._clock()
        return self._set(
            [_is(number, turn)], state=State.PARKED, reason=reason[:REASON_LIMIT], turn=turn + 1, begun=0, due_at=now_
        )

    def judged(self, number: int, turn: int) -> bool:
        """The verdict is recorded."""
        there = [_is(number, turn), EntryRow.state == State.JUDGING]
        return self._set(there, state=State.JUDGED, begun=0)

    def again(self, entry: Entry) -> bool:
        """Hand the same work out once more, in a new turn; for work that was lost."""
        return self._set([_is(entry.id, entry.turn)], turn=entry.turn + 1, due_at=self._clock())

    def revive(self, entry: Entry) -> bool:
        """Try a parked entry anew from the start, for whoever mended what was wrong."""
        there = [_is(entry.id, entry.turn), EntryRow.state == State.PARKED]
        now_ = self._clock()
        return self._set(there, state=State.FOUND, turn=entry.turn + 1, attempts=0, begun=0, due_at=now_, found_at=now_)

    def reopen(self, later_than: Claimed, roots: Iterable[str]) -> int:
        """Judge again what was, or is being, judged without a claim that is not later and now known.

        Args:
            later_than: The claim that became known.
            roots: Content of the entries that may have to do with it.

        Returns:
            How many entries are judged again.
        """
        there = [*_judged_after(later_than), EntryRow.content_root.in_(list(roots))]
        return self._change(there, state=State.IDENTIFYING, turn=EntryRow.turn + 1, due_at=self._clock())

    def any_judged_after(self, claimed: Claimed) -> bool:
        """Whether a claim that is not earlier was, or is being, judged."""
        with reading(self._engine) as session:
            return session.scalars(select(EntryRow.id).where(*_judged_after(claimed)).limit(1)).first() is not None

    def _find(self, digest: str) -> Entry | None:
        with reading(self._engine) as session:
            row = session.scalars(select(EntryRow).where(EntryRow.digest == digest)).one_or_none()
            return None if row is None else entry_of(row)

    def _make(self, claimed: Claimed, source: str, refused: str | None) -> Entry:
        with writing(self._engine) as session:
            made = self._add(session, claimed, source, refused)
            if made is not None:
                return replace(made, new=True)
        return self.get(claimed.digest)

    def _add(self, session: Session, claimed: Claimed, source: str, refused: str | None) -> Entry | None:
        """A new row; None where there is one."""
        if session.scalars(select(EntryRow.id).where(EntryRow.digest == claimed.digest)).first() is not None:
            return None
        row = _row(claimed, source, refused, self._clock())
        try:
            with session.begin_nested():
                session.add(row)
            return entry_of(row)
        except IntegrityError:  # PostgreSQL: another process made it since we looked
            return None

    def _set(self, there: Sequence[ColumnElement[bool]], **fields: Any) -> bool:
        return self._change(there, **fields) > 0

    def _change(self, there: Sequence[ColumnElement[bool]], **fields: Any) -> int:
        with writing(self._engine) as session:
            statement = update(EntryRow).where(*there).values(changed_at=self._clock(), **fields)
            done = session.execute(statement.execution_options(synchronize_session=False))
            return int(getattr(done, "rowcount", 0))


def _is(number: int, turn: int) -> ColumnElement[bool]:
    return and_(EntryRow.id == number, EntryRow.turn == turn)


def _judged_after(claimed: Claimed) -> list[ColumnElement[bool]]:
    block, extrinsic = claimed.position
    return [
        EntryRow.genesis == claimed.genesis,
        EntryRow.netuid == claimed.netuid,
        EntryRow.digest != claimed.digest,
        or_(EntryRow.block > block, and_(EntryRow.block == block, EntryRow.extrinsic >= extrinsic)),
        or_(
            EntryRow.state.in_([State.JUDGED, State.JUDGING]),
            and_(EntryRow.state == State.IDENTIFYING, EntryRow.queued == EntryRow.turn),
        ),
    ]


def _horizon(session: Session, since: datetime) -> dict[tuple[str, int], tuple[int, int]]:
    """The earliest claim of each subnet that is still on its way."""
    query = (
        select(EntryRow.genesis, EntryRow.netuid, EntryRow.block, EntryRow.extrinsic)
        .where(EntryRow.state.in_(OPEN), EntryRow.attempts == 0, EntryRow.found_at > since)
        .order_by(EntryRow.block.desc(), EntryRow.extrinsic.desc())
    )
    return {(r.genesis, r.netuid): (r.block, r.extrinsic) for r in session.execute(query)}


def _held_up(entry: Entry, horizon: dict[tuple[str, int], tuple[int, int]]) -> bool:
    first = horizon.get((entry.claimed.genesis, entry.claimed.netuid))
    return first is not None and first <= entry.claimed.position


def _row(claimed: Claimed, source: str, refused: str | None, at: datetime) -> EntryRow:
    return EntryRow(
        digest=claimed.digest,
        genesis=claimed.genesis,
        netuid=claimed.netuid,
        hotkey=claimed.hotkey,
        repo=claimed.repo,
        revision=claimed.revision,
        block=claimed.block,
        extrinsic=claimed.extrinsic,
        source=source,
        state=State.REFUSED if refused else State.FOUND,
        reason=refused[:REASON_LIMIT] if refused else None,
        attempts=0,
        begun=0,
        turn=1,
        queued=0,
        found_at=at,
        due_at=at,
        changed_at=at,
    )


def entry_of(row: EntryRow) -> Entry:
    """A row as a value."""
    claimed = Claimed(row.genesis, row.netuid, row.hotkey, row.repo, row.revision, row.block, row.extrinsic)
    return Entry(
        id=row.id,
        claimed=claimed,
        source=row.source,
        state=State(row.state),
        reason=row.reason,
        attempts=row.attempts,
        begun=row.begun,
        turn=row.turn,
        queued=row.queued,
        files=row.files,
        path=row.path,
        identified=row.identified,
        content_root=row.content_root,
        found_at=row.found_at,
        due_at=row.due_at,
        changed_at=row.changed_at,
    )
