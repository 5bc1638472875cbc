"""The last word of the service on disk, shared by any number of processes, believed no more than the network.

Two files for each service, chain and subnet: the envelope as received, verified again whenever it is read, and what
was the newest ever seen, with a digest over itself. The second outlives damage to the first, so that a lost snapshot
does not open the door to an older one. Both are written beside their place and renamed, under a lock; a snapshot
first, so that a crash between the two loses nothing. If the disk is full or another process hangs in the lock, reading
goes on from memory and says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from .codes import Code, Problem
from .core import MAX_BODY, MAX_ETAG, Held, Seen, newest
from .snapshot import Refused, Snapshot, Trust, verify

LOCK_SECONDS: Final = 5.0
MAX_SEEN: Final = 4096
MAX_EVIDENCE: Final = 16
"""Contradicting snapshots kept; a service that signs more has been caught often enough."""


class Cache:
    """The files of one service, chain and subnet in a folder.

    Args:
        folder: Made when first written to.
        trust: Whose snapshots these are.
    """

    def __init__(self, folder: Path, trust: Trust) -> None:
        self._folder, self._trust = folder, trust
        name = sha256(f"{trust.key}\n{trust.genesis}\n{trust.netuid}".encode()).hexdigest()[:16]
        self._stem = f"netuid-{trust.netuid}-{name}"

    def load(self) -> tuple[Held, tuple[Problem, ...]]:
        """What is stored and still what was written, and complaints about the rest."""
        problems: list[Problem] = []
        snapshot = self._snapshot(problems)
        seen, etag = self._seen(problems)
        if snapshot is not None and (seen is None or seen.sequence < snapshot.sequence):
            seen, etag = Seen.of(snapshot), ""
        held = newest(Held(snapshot, etag, seen), Held())
        return held, tuple(problems)

    def store(self, held: Held) -> tuple[Held, tuple[Problem, ...]]:
        """Write what this process holds unless something newer is there; the newer of both, and complaints."""
        if held.snapshot is None:
            return held, ()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                stored, _ = self.load()
                if stored.seen is not None and stored.seen.sequence > held.snapshot.sequence:
                    return newest(held, stored), ()
                if stored.seen == held.seen and stored.etag == held.etag and stored.snapshot is not None:
                    return held, ()
                self._write(self._path("snapshot"), held.snapshot.raw)
                self._write(self._path("seen"), _record(held))
        except OSError as error:
            problem = Problem(Code.CACHE_UNWRITABLE, f"{self._folder}: {error.strerror or error}")
            return held, (problem,)
        return held, ()

    def keep(self, evidence: bytes) -> tuple[Problem, ...]:
        """Keep a signed snapshot that contradicts another, and that other; complaints."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if len(list(self._folder.glob(f"{self._stem}.contradiction-*"))) >= MAX_EVIDENCE:
                return ()
            for data in (evidence, self._read("snapshot", MAX_BODY) or b""):
                if data:
                    name = f"contradiction-{sha256(data).hexdigest()[:16]}"
                    self._write(self._path(name), data)
        except OSError as error:
            return (Problem(Code.CACHE_UNWRITABLE, f"{self._folder}: {error.strerror or error}"),)
        return ()

    def _snapshot(self, problems: list[Problem]) -> Snapshot | None:
        try:
            raw = self._read("snapshot", MAX_BODY)
            return None if raw is None else verify(raw, self._trust, where=str(self._path("snapshot")))
        except Refused as refusal:
            problems.append(Problem(Code.CACHE_DAMAGED, str(refusal)))
        except OSError as error:
            problems.append(Problem(Code.CACHE_DAMAGED, f"{self._path('snapshot')}: {error.strerror or error}"))
        return None

    def _seen(self, problems: list[Problem]) -> tuple[Seen | None, str]:
        try:
            raw = self._read("seen", MAX_SEEN)
            return (None, "") if raw is None else _parse(raw)
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(Problem(Code.CACHE_DAMAGED, f"{self._path('seen')}: not what was written"))
        except OSError as error:
            problems.append(Problem(Code.CACHE_DAMAGED, f"{self._path('seen')}: {error.strerror or error}"))
        return None, ""

    def _read(self, kind: str, limit: int) -> bytes | None:
        try:
            with self._path(kind).open("rb") as file:
                data = file.read(limit + 1)
        except FileNotFoundError:
            return None
        if len(data) > limit:
            raise OSError(0, "larger than anything that was written")
        return data

    def _write(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time; a process that hangs in here makes the others give up, not wait."""
        with self._path("lock").open("ab") as file:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise OSError(0, "another process holds the lock") from None
                    time.sleep(0.02)
            yield

    def _path(self, kind: str) -> Path:
        return self._folder / f"{self._stem}.{kind}"


def _record(held: Held) -> bytes:
    assert held.seen is not None  # noqa: S101  # a snapshot held was seen
    members = asdict(held.seen) | {"etag": held.etag}
    return json.dumps(members | {"check": _check(members)}).encode()


def _parse(raw: bytes) -> tuple[Seen, str]:
    members: dict[str, Any] = json.loads(raw)
    check = members.pop("check")
    etag = members.pop("etag")
    if check != _check(members | {"etag": etag}) or not isinstance(etag, str) or len(etag) > MAX_ETAG:
        raise ValueError
    return Seen(**members), etag


def _check(members: dict[str, Any]) -> str:
    return sha256(json.dumps(members, sort_keys=True).encode()).hexdigest()
