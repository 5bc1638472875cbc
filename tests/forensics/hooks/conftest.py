"""A service's subscriptions and the two halves that serve them, on a clock that only the test moves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from attest import envelope as dsse
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.service import account
from attest.predicates.verdict import SNAPSHOT_SCHEMA, LogRef, PolicyRef, Status, UidVerdict, Verdicts
from attest.statement import state
from benchmarks.load.world import hotkey_of
from forensics.hooks.announcing import Announcer
from forensics.hooks.delivering import Deliverer
from forensics.hooks.sealing import Sealer
from forensics.hooks.subscriptions import Subscriptions
from forensics.store.blobs import digest_of
from forensics.store.engine import writing
from forensics.store.verdicts import SnapshotRow
from tests.forensics.attesting import GENESIS, NETUID, PLACE, Clock

SIGNER = Ed25519Signer(b"\7" * 32)
URL = "http://127.0.0.1:9/hook"


@dataclass
class Receiver:
    """Takes messages in the place of the network, with the answers it is given."""

    answers: list = field(default_factory=list)
    got: list = field(default_factory=list)

    def __call__(self, target, headers, body):
        self.got.append((target, headers, body))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def said(self):
        return [json.loads(body) for _, _, body in self.got]


@dataclass
class World:
    engine: object
    clock: Clock
    hooks: Subscriptions
    announcer: Announcer
    receiver: Receiver
    sealer: Sealer

    def deliverer(self):
        return Deliverer(self.engine, self.sealer, loopback=True, clock=self.clock, post=self.receiver)

    def publish(self, sequence, *statuses, leaf=0):
        """A snapshot in which the hotkey of each uid has a status."""
        verdicts = tuple(verdict(uid, status) for uid, status in enumerate(statuses) if status)
        predicate = Verdicts(
            context=PLACE.context(account(SIGNER), clock=self.clock),
            schema=SNAPSHOT_SCHEMA,
            network="finney",
            genesis=GENESIS,
            netuid=NETUID,
            block=100 + sequence,
            sequence=sequence,
            issued_at="2026-11-30T12:00:00Z",
            expires_at="2026-11-30T13:00:00Z",
            policy=PolicyRef("default", 1, digest_of(b"p")),
            log=LogRef("log.example/x", 1, "A" * 43 + "="),
            verdicts=verdicts,
        )
        payload = state(predicate).payload()
        row = SnapshotRow(
            genesis=GENESIS,
            netuid=NETUID,
            sequence=sequence,
            block=100 + sequence,
            digest=digest_of(payload),
            content=digest_of(payload),
            envelope=dsse.sign(payload, [SIGNER]).to_json(),
            leaf=leaf,
            issued_at=self.clock(),
            expires_at=self.clock(),
        )
        with writing(self.engine) as session:
            session.add(row)


def verdict(uid, status):
    return UidVerdict(
        uid=uid,
        hotkey=hotkey_of(uid),
        revision="a" * 40,
        content_root=None,
        status=status,
        multiplier="0.0" if status is Status.PENALISED else "1.0",
        permanent=False,
        reasons=(),
        parents=(),
        cluster=None,
        case=None,
    )


@pytest.fixture
def world(engine):
    clock, sealer = Clock(), Sealer(SIGNER)
    return World(
        engine,
        clock,
        Subscriptions(engine, GENESIS, sealer, loopback=True, clock=clock),
        Announcer(engine, GENESIS, clock=clock),
        Receiver(),
        sealer,
    )
