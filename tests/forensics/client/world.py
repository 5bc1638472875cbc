"""A service in memory: it signs snapshots, answers or misbehaves, and time is what a test says it is."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2

from attest import envelope as dsse
from attest.keys import ss58
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.hotkey import Hotkey
from attest.log.note import NoteKey
from attest.predicates import Context
from attest.predicates.verdict import LogRef, PolicyRef, Reason, Status, UidVerdict, Verdicts
from attest.statement import Statement, state
from forensics.client import AsyncVerdictClient, Reading, VerdictClient
from forensics.place import GENESIS

NETUID = 120
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
LIFE = timedelta(hours=1)
COPY = Reason(
    code="copy.perturbed",
    detector="copy@1",
    of=None,
    confidence="0.9999999",
    false_accusation_probability="1e-9",
    evidence=None,
)


def address(name: str) -> str:
    """The hotkey of a miner."""
    return ss58.encode(sha256(name.encode()).digest())


def revision(name: str) -> str:
    """The revision of a miner's model."""
    return sha256(b"revision " + name.encode()).hexdigest()[:40]


def signer(name: str = "service") -> Ed25519Signer:
    """A service's key."""
    return Ed25519Signer(sha256(name.encode()).digest())


def key(name: str = "service", *, origin: str = "log.example") -> str:
    """A service's key as a client is given it."""
    return str(NoteKey(origin, signer(name).verifier.public_bytes))


def verdict(uid: int, name: str, multiplier: str = "1.0", **changes: Any) -> UidVerdict:
    """A verdict: clear at 1, else penalised for a copy."""
    clear = float(multiplier) == 1
    fields = {
        "uid": uid,
        "hotkey": address(name),
        "revision": revision(name),
        "content_root": "sha256:" + sha256(name.encode()).hexdigest(),
        "status": Status.CLEAR if clear else Status.PENALISED,
        "multiplier": multiplier,
        "permanent": False,
        "reasons": () if clear else (COPY,),
        "parents": (),
        "cluster": None,
        "case": None,
    }
    return UidVerdict(**(fields | changes))


def verdicts(*entries: UidVerdict, at: datetime = START, by: Ed25519Signer | None = None, **changes: Any) -> Statement:
    """An unsigned snapshot issued at ``at``."""
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    place = {"genesis": GENESIS["finney"], "netuid": NETUID} | {
        name: changes[name] for name in ("genesis", "netuid") if name in changes
    }
    account = Hotkey.of((by or signer()).verifier)
    fields: dict[str, Any] = {
        "context": Context.of(account, competition="default", claimed_at=at.strftime(stamp), **place),
        "schema": "forensics/snapshot/v1",
        "network": "finney",
        **place,
        "block": 8_512_345,
        "sequence": 1,
        "issued_at": at.strftime(stamp),
        "expires_at": (at + LIFE).strftime(stamp),
        "policy": PolicyRef(name="default", version=3, digest="sha256:" + "0" * 64),
        "log": LogRef(origin="log.example", size=10, root=base64.b64encode(bytes(32)).decode()),
        "verdicts": entries or (verdict(0, "ada"), verdict(1, "bob", "0.25"), verdict(2, "eve", "0")),
    }
    return state(Verdicts(**(fields | changes)))


def signed(statement: Statement, by: Ed25519Signer | None = None) -> bytes:
    """The envelope as it is served."""
    return dsse.sign(statement.payload(), [by or signer()]).to_json()


@dataclass
class World:
    """A service, the clock, and a place for caches."""

    folder: Path
    time: datetime = START
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    down: bool = False
    asked: list[httpx2.Request] = field(default_factory=list)
    loud: list[Reading] = field(default_factory=list)

    def publish(self, sequence: int = 1, *entries: UidVerdict, **changes: Any) -> bytes:
        """Serve a snapshot made now."""
        size = changes.pop("size", 10 + sequence)
        log = LogRef(origin="log.example", size=size, root=base64.b64encode(bytes(32)).decode())
        self.body = signed(verdicts(*entries, at=self.time, sequence=sequence, log=log, **changes))
        self.headers = {"etag": f'"{sequence}"'}
        self.status, self.down = 200, False
        return self.body

    def wait(self, **span: float) -> None:
        """Time passes."""
        self.time += timedelta(**span)

    def client(self, **changes: Any) -> VerdictClient:
        """A client that shares the cache with all others."""
        return VerdictClient(**self._options(changes))

    def async_client(self, **changes: Any) -> AsyncVerdictClient:
        """The same for an event loop."""
        return AsyncVerdictClient(**self._options(changes))

    def _options(self, changes: dict[str, Any]) -> dict[str, Any]:
        return {
            "url": "https://verdicts.example",
            "service_key": key(),
            "netuid": NETUID,
            "cache": self.folder,
            "clock": lambda: self.time,
            "transport": httpx2.MockTransport(self._answer()),
            "pause": 0.0,
            "on_problem": self.loud.append,
        } | changes

    def _answer(self) -> Callable[[httpx2.Request], Any]:
        async def answer(request: httpx2.Request) -> httpx2.Response:
            self.asked.append(request)
            if self.down:
                raise httpx2.ConnectError("connection refused")
            if self.status == 200 and request.headers.get("if-none-match") == self.headers.get("etag", ""):
                return httpx2.Response(304, headers=self.headers)
            return httpx2.Response(self.status, content=_pieces(self.body), headers=self.headers)

        return answer


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body as it arrives from a network: in pieces, as sent."""
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


def changed(statement: Statement, **changes: Any) -> Statement:
    """Another snapshot like this one."""
    assert isinstance(statement.predicate, Verdicts)
    return state(replace(statement.predicate, **changes))
