"""An epoch made by hand, so that each part of it can be made wrong."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from hashlib import sha256

from attest import envelope
from attest.keys import ss58
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.hotkey import Hotkey
from attest.log import Log
from attest.log.note import open_checkpoint
from attest.log.proof import parse_receipt
from attest.predicates import Context as Speaking
from attest.predicates import EpochStep, Predicate, SeedCommitment, SeedReveal
from attest.predicates.seeds import Batch, Step
from attest.seeds import batch, derive
from attest.seeds.beacon import value
from attest.seeds.course import ORDER
from attest.seeds.derive import Context
from attest.seeds.epoch_file import SCHEMA, EpochFile, Stamp
from attest.seeds.monitor import Watch
from attest.seeds.plan import Environment, Plan, items_digest
from attest.statement import state

from ..log.memory import MemoryLog
from .simulated import SimulatedBeacon

SERVICE = Ed25519Signer(sha256(b"service").digest())
ORIGIN = "log.example/seeds"
GENESIS = sha256(b"a chain").digest()
PLAN = Plan.of(Environment("sat", 5, 2), Environment("ded", 3, 0))
MIX, OPEN = 30_000_000, 30_000_400
LEAGUE = SimulatedBeacon()
SECRET = sha256(b"secret of epoch 7").digest()
OTHER = sha256(b"another secret").digest()
ROSTER = tuple(ss58.encode(sha256(name).digest()) for name in (b"val a", b"val b"))
CONTEXT = Context(GENESIS, 120, "demo", 7, PLAN.digest, sha256(b"code").digest(), MIX, OPEN)
AFTER = LEAGUE.network.time_of(OPEN) + 60


@dataclass
class Operator:
    """Runs one epoch; each attribute can be set to something dishonest first."""

    secret: bytes = SECRET
    committed_secret: bytes = SECRET
    locked_secret: bytes = SECRET
    locked_round: int = OPEN
    anchored_before_mix: int = 600
    anchored: bool = True
    revealed: bool = True
    reveal_stamp: int | None = None
    seed: bytes | None = None
    handed_seed: bytes | None = None
    mix_in_reveal: bytes | None = None
    course: tuple[Step, ...] = ORDER
    void_reason: str = "window_missed"
    statement: str = ""
    log: Log = field(default_factory=lambda: Log(MemoryLog(), SERVICE, origin=ORIGIN))

    def file(self) -> EpochFile:
        """The public file of the epoch this operator ran."""
        committed = derive.commitment(CONTEXT, self.committed_secret)
        timelock = LEAGUE.encrypt(self.locked_secret, self.locked_round)
        timelock = timelock[:-8] + OPEN.to_bytes(8, "little")
        before = [batch.leaf(dataclasses.replace(CONTEXT, epoch=e), bytes(32), b"") for e in (5, 6)]
        place = batch.places([*before, batch.leaf(CONTEXT, committed, timelock)])[2]
        said = self.commitment(committed, timelock, place)
        receipt = self.logged(said)
        parent = state(said).digest
        seed = derive.final_seed(CONTEXT, self.secret, value(LEAGUE.sign(MIX)))
        stamp = self.stamp(receipt, LEAGUE.network.time_of(MIX) - self.anchored_before_mix)
        self.statement, handed = parent, self.handed_seed or seed
        steps = [self.logged(self.step(committed, parent, step, stamp, handed)) for step in self.course]
        reveal = self.logged(self.reveal(committed, parent, self.seed or seed)) if self.revealed else None
        stamps = [stamp] if self.anchored else []
        if reveal is not None and self.reveal_stamp is not None:
            stamps.append(self.stamp(reveal, self.reveal_stamp))
        return EpochFile(
            schema=SCHEMA,
            log=str(self.log.key),
            plan=PLAN,
            commitment=receipt.decode(),
            batch_path=tuple(node.hex() for node in place.path),
            stamps=tuple(stamps),
            steps=tuple(step.decode() for step in steps),
            mix_signature=LEAGUE.sign(MIX).hex(),
            open_signature=LEAGUE.sign(OPEN).hex(),
            reveal=None if reveal is None else reveal.decode(),
            consistency=None if reveal is None else self.consistency(receipt, reveal),
        )

    def commitment(self, committed: bytes, timelock: bytes, place: batch.Place) -> SeedCommitment:
        return SeedCommitment(
            context=speaking(),
            epoch=7,
            commitment=committed.hex(),
            pool="sha256:" + PLAN.digest.hex(),
            generator="sha256:" + CONTEXT.generator.hex(),
            chain=CONTEXT.chain.hex(),
            mix_round=MIX,
            open_round=OPEN,
            timelock=timelock.hex(),
            batch=Batch(root="sha256:" + place.root.hex(), index=place.index, size=place.size),
        )

    def step(self, committed: bytes, parent: str, what: Step, stamp: Stamp, seed: bytes) -> EpochStep:
        opened = self.opening(committed, parent, seed)
        if what is Step.OPEN:
            return opened
        plain = {
            "step": what,
            "evidence": None,
            "roster": (),
            "reason": self.void_reason if what is Step.VOID else None,
        }
        if what is Step.ANCHORED:
            plain |= {"block": stamp.block, "block_time": stamp.block_time, "evidence": "sha256:" + stamp.digest}
        return dataclasses.replace(opened, **plain)

    def opening(self, committed: bytes, parent: str, seed: bytes) -> EpochStep:
        return EpochStep(
            context=speaking(parent),
            epoch=7,
            commitment=committed.hex(),
            statement=parent,
            step=Step.OPEN,
            block=10,
            block_time=LEAGUE.network.time_of(MIX) + 5,
            evidence=items_digest(seed, PLAN, len(ROSTER)),
            reason=None,
            roster=ROSTER,
        )

    def reveal(self, committed: bytes, parent: str, seed: bytes) -> SeedReveal:
        return SeedReveal(
            context=speaking(parent),
            epoch=7,
            commitment=committed.hex(),
            statement=parent,
            secret=self.secret.hex(),
            mix_signature=(self.mix_in_reveal or LEAGUE.sign(MIX)).hex(),
            seed=seed.hex(),
            log_receipt=None,
        )

    def watch(self) -> Watch:
        """What somebody who read the whole log knows."""
        watch = Watch(self.log.key)
        for number in range(self.log.size()):
            watch.take(number, self.log.leaf(number))
        return watch

    def logged(self, said: Predicate) -> bytes:
        body = envelope.sign(state(said).payload(), [SERVICE]).to_json()
        (index,) = self.log.append([body])
        self.log.checkpoint()
        return self.log.prove(index).encode()

    def stamp(self, receipt: bytes, time: int) -> Stamp:
        digest = open_checkpoint(parse_receipt(receipt).checkpoint, log=self.log.key).checkpoint.digest()
        return Stamp(
            block=9,
            block_hash="",
            block_time=time,
            extrinsic=1,
            genesis="0x" + GENESIS.hex(),
            netuid=120,
            hotkey=ROSTER[0],
            digest=digest.hex(),
        )

    def consistency(self, earlier: bytes, later: bytes) -> tuple[str, ...]:
        sizes = [
            open_checkpoint(parse_receipt(receipt).checkpoint, log=self.log.key).checkpoint.size
            for receipt in (earlier, later)
        ]
        return tuple(node.hex() for node in self.log.prove_consistency(*sizes))


def speaking(*parents: str) -> Speaking:
    return Speaking.of(
        Hotkey.of(SERVICE.verifier),
        genesis="0x" + GENESIS.hex(),
        netuid=120,
        competition="demo",
        claimed_at="2026-11-30T12:00:00Z",
        parents=parents,
    )
