"""A chain and a league whose time the test turns, kept in one folder so that processes can be killed around them.

Blocks come every 12 seconds. Anchors are durable before ``anchor`` returns, as those of a real chain are.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from attest.keys import ss58
from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log
from attest.log.anchor import Anchor
from attest.seeds.beacon import QUICKNET
from attest.seeds.plan import Environment, Plan
from forensics.epochs.errors import ChainSilent
from forensics.epochs.interfaces import World
from forensics.epochs.machine import Moment
from forensics.epochs.rotation import Rotation
from forensics.epochs.shelf import Shelf
from forensics.log_store import DatabaseLog
from forensics.place import Place
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.attest.seeds.simulated import SimulatedBeacon

START = 1_790_000_000
BLOCK = 12
SIGNER = Ed25519Signer(sha256(b"service").digest())
SEAL_KEY = sha256(b"key manager").digest()
GENESIS = sha256(b"a chain").digest()
ORIGIN = "log.example/seeds"
CONTEST = Place("0x" + GENESIS.hex(), 120, "demo")
PLAN = Plan.of(Environment("sat", 6, 2), Environment("ded", 4, 1))
GENERATOR = "sha256:" + sha256(b"generators").hexdigest()
VALIDATORS = [ss58.encode(sha256(name.encode()).digest()) for name in ("val a", "val b", "val c")]
MINER = ss58.encode(sha256(b"miner").digest())


class SimulatedChain:
    """Time and anchors in files of ``folder``; ``time`` is the chain's, ``skew`` what the service's clock is off."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, value: object) -> None:
        temporary = self.folder / f".{name}-{secrets.token_hex(4)}"
        temporary.write_text(json.dumps(value))
        os.replace(temporary, self.folder / name)

    def read(self, name: str, default: object) -> object:
        try:
            return json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return default

    @property
    def time(self) -> int:
        return self.read("time", START)

    @time.setter
    def time(self, value: int) -> None:
        self.write("time", value)

    def clock(self) -> datetime:
        return datetime.fromtimestamp(self.time + self.read("skew", 0), UTC)

    def moment(self) -> Moment:
        if self.read("silent", False):
            raise ChainSilent("no node answers", where="chain")
        block = (self.time - START) // BLOCK
        return Moment(block, START + block * BLOCK + self.read("chain_skew", 0))

    def block_time(self, block: int) -> int:
        return START + block * BLOCK

    def validators(self, netuid: int, block: int) -> Sequence[str]:
        return VALIDATORS

    def anchor(self, digest: bytes) -> Anchor:
        held = self.read("anchors", [])
        block = (self.time - START) // BLOCK + 1
        self.write("anchors", [*held, [block, digest.hex()]])
        return self._anchor(block, digest)

    def anchors(self, digest: bytes) -> Sequence[Anchor]:
        return [self._anchor(block, digest) for block, held in self.read("anchors", []) if held == digest.hex()]

    def _anchor(self, block: int, digest: bytes) -> Anchor:
        return Anchor(block, 1, GENESIS, 120, SIGNER.verifier.public_bytes, digest)


class LeagueOf:
    """The simulated league seen through the chain folder's time; ``late`` and ``lies`` are files too."""

    def __init__(self, chain: SimulatedChain) -> None:
        self.league = SimulatedBeacon()
        self.network = self.league.network
        self._chain = chain

    def signature(self, round_: int) -> bytes:
        self.league.now = self._chain.time
        self.league.late = set(self._chain.read("late", []))
        if round_ in self._chain.read("lies", []):
            return self.league.sign(round_ + 1)
        return self.league.signature(round_)


def world_of(chain: SimulatedChain, **changes: object) -> World:
    league = LeagueOf(chain)
    parts = {
        "signer": SIGNER,
        "seal_key": lambda: SEAL_KEY,
        "beacon": league,
        "timelock": league.league,
        "network": league.network,
        "clock": chain.clock,
    }
    return World(**(parts | changes))


def service(url: str, chain: SimulatedChain, **changes: object) -> Rotation:
    engine = connect(url, busy_seconds=60)
    ensure(engine)
    log = Log(DatabaseLog(engine), SIGNER, origin=ORIGIN)
    return Rotation(Shelf(engine, log, CONTEST), world_of(chain, **changes), chain)


def round_in(seconds: int) -> int:
    """The first round that is out that many seconds after the start."""
    return QUICKNET.round_at(START + seconds - 1) + 1
