"""The steps between a commitment and a verdict, as plain functions that may be repeated at any time.

fetch, fingerprint | identify, detect, judge, publish. What a step found out is in the database before it returns, and
every change is bound to the entry's turn, so a step that is carried out twice, or by a worker that was taken for dead,
changes nothing the second time. Checkpoints are only ever opened in a child process (``sandbox``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from fingerprint.errors import CheckpointError
from fingerprint.file import loads

from ..bundle import canonical
from ..entries.claimed import Claimed, Entry, State
from ..entries.entries import Entries
from ..errors import BadInput, ForensicsError, StoreUnavailable, code_of
from ..known.index import Index
from ..known.registry import Registry
from ..place import Clock, now
from ..store.blobs import Blobs
from . import lab
from .interface import Document
from .retries import WORKER_DEATHS, after
from .sandbox import ChildDied, ChildFailed, Sandbox
from .scans import Scanned, Scans

GO: Document = {"go": True}
OVER: Document = {"go": False, "why": "this turn is over"}
UNKNOWN = (State.PARKED, State.REFUSED)
"""States whose turn is only about saying so in a verdict."""
WIDE = 128
"""Known models near one that became known late: their later claims are judged again, far ones are not concerned."""


class Fetcher(Protocol):
    """Where files come from."""

    def fetch(self, claimed: Claimed) -> Path:
        """The files of a claim, on this machine; resumed where it was broken off.

        Raises:
            ForensicsError: With ``state`` (a code) and, where the other side named one, ``retry_after`` in seconds.
        """


class Court(Protocol):
    """What is made of a comparison with the known models."""

    def detect(self, entry: Entry, identified: dict[str, Any]) -> None:
        """Record the findings that follow; repeated, the same."""

    def judge(self, entry: Entry) -> None:
        """Record a verdict; the same inputs are judged once."""


@dataclass(frozen=True)
class Places:
    """Where a child process finds what the worker works on."""

    database: str
    blobs: str
    cache: str


@dataclass(frozen=True)
class Desk:
    """What the steps work on.

    Attributes:
        entries: Entries.
        fetcher: Where files come from.
        sandbox: Where checkpoints are read.
        registry: Known models.
        index: Search among them.
        scans: Which files were fingerprinted.
        blobs: Evidence and identifications.
        court: Findings and verdicts.
        places: For child processes.
        published: Told that a verdict of (genesis, netuid) is new.
        candidates: How many known models the search proposes.
        clock: The time.
    """

    entries: Entries
    fetcher: Fetcher
    sandbox: Sandbox
    registry: Registry
    index: Index
    scans: Scans
    blobs: Blobs
    court: Court
    places: Places
    published: Callable[[str, int], None]
    candidates: int = 16
    clock: Clock = now


class Pipeline:
    """The steps.

    Args:
        desk: What they work on.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def fetch(self, number: int, turn: int) -> Document:
        """Bring the files here."""
        entry = self._begin(
            number, turn, State.FETCHING, before=(State.FOUND, State.WAITING), done=(State.FINGERPRINTING,)
        )
        if not isinstance(entry, Entry):
            return entry
        try:
            path = self._desk.fetcher.fetch(entry.claimed)
        except ForensicsError as error:
            return self._failed(entry, _code(error), str(error), retry_after=getattr(error, "retry_after", None))
        self._desk.entries.proceed(number, turn, path=str(path), state=State.FINGERPRINTING)
        return GO

    def fingerprint(self, number: int, turn: int) -> Document:
        """Make, or find, the fingerprint; register the claim; have later claims judged again where this came late."""
        entry = self._begin(number, turn, State.FINGERPRINTING)
        if not isinstance(entry, Entry):
            return entry
        try:
            path = self._path(entry)
            files, data = self._scanned(path)
            made = loads(data, where=files)
            claim = entry.claimed.claim(str(path))
            added = self._desk.registry.add(made, claim)
            self._desk.scans.add(files, lab.algorithm(), Scanned(made.content_root, added.model.blob))
            self._reopen(entry.claimed, added.model.content_root)
        except ChildDied as error:
            return self._failed(entry, "reader_died", str(error))
        except (ForensicsError, CheckpointError) as error:
            return self._failed(entry, _code(error), str(error), retry_after=getattr(error, "retry_after", None))
        self._desk.entries.known(number, turn, content_root=made.content_root, files=files)
        return GO

    def identify(self, number: int, turn: int) -> Document:
        """Compare with the known models; evidence and result go to the blob store."""
        entry = self._begin(number, turn, State.IDENTIFYING, done=(State.JUDGING, State.JUDGED, *UNKNOWN))
        if not isinstance(entry, Entry):
            return entry
        try:
            found, _ = self._desk.sandbox.run(
                lab.identify,
                **asdict(self._desk.places),
                content_root=str(entry.content_root),
                path=entry.path,
                claim=asdict(entry.claimed.claim()),
                limit=self._desk.candidates,
            )
        except ChildDied as error:
            return self._unidentified(entry, "reader_died", str(error))
        except ForensicsError as error:
            return self._unidentified(entry, _code(error), str(error))
        blob = self._desk.blobs.put(canonical(found))
        self._desk.entries.proceed(number, turn, identified=blob, state=State.JUDGING)
        return GO

    def detect(self, number: int, turn: int) -> Document:
        """Record what follows from the comparison."""
        entry = self._begin(number, turn, State.JUDGING, done=(State.JUDGED, *UNKNOWN))
        if not isinstance(entry, Entry):
            return entry
        self._desk.court.detect(entry, json.loads(self._desk.blobs.get(str(entry.identified))))
        self._desk.entries.proceed(number, turn)
        return GO

    def judge(self, number: int, turn: int) -> Document:
        """Record the verdict."""
        entry = self._begin(number, turn, State.JUDGING, done=(State.JUDGED,))
        if isinstance(entry, Entry):
            self._desk.court.judge(entry)
            self._desk.entries.judged(number, turn)
            return GO
        there = self._desk.entries.by_id(number)
        if there.turn == turn and there.state in UNKNOWN:
            self._desk.court.judge(there)
            return GO
        return entry

    def publish(self, number: int, turn: int) -> Document:
        """Ask for a snapshot; whoever publishes looks at verdicts, so an unheard wish costs time and nothing else."""
        claimed = self._desk.entries.by_id(number).claimed
        self._desk.published(claimed.genesis, claimed.netuid)
        return GO

    def _begin(
        self, number: int, turn: int, state: State, *, before: Sequence[State] = (), done: Sequence[State] = ()
    ) -> Entry | Document:
        """The entry, now in ``state``; or what the step returns when there is nothing to do (any more)."""
        entry = self._desk.entries.begin(number, turn, state, among=before)
        if entry is None:
            there = self._desk.entries.by_id(number)
            return GO if there.turn == turn and there.state in done else OVER
        if entry.begun > WORKER_DEATHS:
            what = f"worker_died: {WORKER_DEATHS} workers died at {state}"
            self._desk.entries.park(number, turn, reason=what)
            return OVER
        return entry

    def _path(self, entry: Entry) -> Path:
        """The files; fetched again where this machine is not the one that did, or has removed them."""
        if entry.path is not None and Path(entry.path).exists():
            return Path(entry.path)
        path = self._desk.fetcher.fetch(entry.claimed)
        self._desk.entries.proceed(entry.id, entry.turn, path=str(path))
        return path

    def _scanned(self, path: Path) -> tuple[str, bytes]:
        """Digest of the files, and the fingerprint of such files as bytes."""
        head, _ = self._desk.sandbox.run(lab.files_digest, path=str(path))
        files = str(head["files"])
        seen = self._desk.scans.find(files, lab.algorithm())
        if seen is not None:
            try:
                return files, self._desk.blobs.get(seen.blob)
            except (StoreUnavailable, BadInput):
                pass  # lost or damaged: made again
        _, data = self._desk.sandbox.run(lab.fingerprint, path=str(path))
        return files, data

    def _reopen(self, claimed: Claimed, content_root: str) -> None:
        """Later claims near this one were judged without it; they are judged again."""
        entries = self._desk.entries
        if not entries.any_judged_after(claimed):
            return
        model = self._desk.registry.by_root([content_root])[0]
        made = self._desk.registry.fingerprint(model)
        near = {*self._desk.index.candidates(made, WIDE), *self._desk.index.crowd(made)}
        entries.reopen(claimed, {content_root, *(m.content_root for m in self._desk.registry.get(near))})

    def _failed(self, entry: Entry, code: str, text: str, *, retry_after: float | None = None) -> Document:
        again = after(code, entry.attempts, retry_after=retry_after)
        reason = f"{code}: {text}"
        if again is None:
            self._desk.entries.park(entry.id, entry.turn, reason=reason)
        else:
            due_at = self._desk.clock() + again.delay
            self._desk.entries.wait(entry.id, entry.turn, reason=reason, due_at=due_at, counts=again.counts)
        return {"go": False, "why": reason}

    def _unidentified(self, entry: Entry, code: str, text: str) -> Document:
        """The content is known, but could not be compared: tried again in place, and given up in the end."""
        again = after(code, entry.attempts)
        reason = f"{code}: {text}"
        if again is None:
            self._desk.entries.park(entry.id, entry.turn, reason=reason)
        else:
            due_at = self._desk.clock() + min(again.delay, timedelta(minutes=1))
            self._desk.entries.later(entry.id, entry.turn, reason=reason, due_at=due_at, counts=again.counts)
        return {"go": False, "why": reason}


_KINDS = {
    "MalformedCheckpoint": "malformed_checkpoint",
    "UnsupportedCheckpoint": "unsupported_checkpoint",
    "CheckpointTooLarge": "checkpoint_too_large",
    "CheckpointUnavailable": "checkpoint_unavailable",
    "StoreUnavailable": "store_unavailable",
}


def _code(error: Exception) -> str:
    """A stable word: the hub's own state, the class of what a child refused, or the error's name."""
    if isinstance(error, ChildFailed):
        return _KINDS.get(error.kind, "reader_failed")
    state = getattr(error, "state", None)
    return str(state) if state is not None else code_of(error)
