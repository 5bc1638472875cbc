"""A subnet of tiny real checkpoints: each is committed, identified, examined and judged as the service does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from sqlalchemy import Engine

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log
from fingerprint.compare import Source, load_calibration
from fingerprint.fingerprint import Fingerprint
from forensics import evidence
from forensics.known.address import encode
from forensics.known.claim import Claim, Role
from forensics.known.identify import Identification, Identifier
from forensics.known.index import Index
from forensics.known.registry import Registry
from forensics.log_store import DatabaseLog
from forensics.policy import Policy, default
from forensics.snapshots import Publisher, Shelf
from forensics.store.blobs import Blobs
from forensics.store.engine import writing
from forensics.store.entries import EntryRow
from forensics.verdicts import Verdicts
from forensics.verdicts.identified import Examiner, Owners, Strangers, Submitted
from forensics.verdicts.store import Recorded
from tests.forensics import models
from tests.forensics.attesting import GENESIS, NETUID, NOON, Clock

SIGNER = Ed25519Signer(b"\x21" * 32)
ORIGIN = "log.example/verdicts"


@dataclass(frozen=True)
class Seat:
    """A registered uid."""

    uid: int
    hotkey: str
    coldkey: str = ""


def hotkey(name: str) -> str:
    return encode(sha256(name.encode()).digest())


def revision(name: str) -> str:
    return sha256(b"revision " + name.encode()).hexdigest()[:40]


def trained(tensors: Mapping[str, torch.Tensor], relative: float = 0.05, seed: int = 3) -> models.Tensors:
    """A change as training makes it: in every matrix sums of few outer products, and a part that has no structure."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    shared = draw(8, models.WIDTH)

    def moved(x: torch.Tensor) -> torch.Tensor:
        x32 = x.float()
        if x.ndim < 2:
            return (x32 * (1 + 0.2 * relative * draw(*x.shape))).to(x.dtype)
        side = shared if x.shape[1] == models.WIDTH else draw(8, x.shape[1])
        delta = draw(x.shape[0], 8) @ side
        delta = delta + 0.5 * draw(*x.shape) * delta.std()
        return (x32 + delta * (relative * x32.norm() / delta.norm())).to(x.dtype)

    return {name: moved(x) for name, x in tensors.items()}


@dataclass
class Field:
    """Everything between a commitment and a snapshot, on one database."""

    engine: Engine
    blobs: Blobs
    cache: Path
    policy: Policy = field(default_factory=default)
    owners: Owners = field(default_factory=Strangers)
    clock: Clock = field(default_factory=Clock)
    names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registry = Registry(self.engine, self.blobs, clock=self.clock)
        self.log = Log(DatabaseLog(self.engine), SIGNER, origin=ORIGIN)
        self.verdicts = self.judging(self.policy)
        index = Index(self.engine, self.cache)
        self.identifier = Identifier(self.registry, index, calibration=load_calibration())
        self.shelf = Shelf(self.engine, GENESIS, log=self.log)

    def judging(self, policy: Policy, **options: Any) -> Verdicts:
        return Verdicts(self.engine, self.blobs, policy=policy, clock=self.clock, **options)

    def publisher(self) -> Publisher:
        return Publisher(
            self.engine,
            self.log,
            SIGNER,
            verdicts=self.verdicts,
            policy=self.verdicts.policy,
            network="finney",
            genesis=GENESIS,
            competition="demo",
            clock=self.clock,
        )

    def base(self, print_: Fingerprint) -> None:
        self.registry.add(print_, Claim(Role.BASE, label="base"))

    def commit(
        self, name: str, *, block: int, extrinsic: int = 0, state: str = "found", reason: str | None = None
    ) -> int:
        """An entry, as branch jobs makes them; its id."""
        entry = self.enter(name, block=block, extrinsic=extrinsic, state=state, reason=reason)
        self.names[name] = entry
        return entry

    def enter(self, name: str, *, block: int, extrinsic: int, state: str, reason: str | None) -> int:
        values = {
            "digest": "sha256:" + sha256(f"{name} {block} {extrinsic}".encode()).hexdigest(),
            "genesis": GENESIS,
            "netuid": NETUID,
            "hotkey": hotkey(name),
            "repo": f"{name}/model",
            "revision": revision(name),
            "block": block,
            "extrinsic": extrinsic,
            "source": "chain",
            "state": state,
            "reason": reason,
            "attempts": 0,
            "begun": 0,
            "turn": 1,
            "queued": 0,
            "found_at": NOON,
            "due_at": NOON,
            "changed_at": NOON,
        }
        row = EntryRow(**{key: value for key, value in values.items() if hasattr(EntryRow, key)})
        with writing(self.engine) as session:
            session.add(row)
            session.flush()
            return row.id

    def submit(self, name: str, print_: Fingerprint, *, block: int, extrinsic: int = 0) -> Recorded:
        """A commitment whose model is known: registered, identified, examined, judged."""
        entry = self.commit(name, block=block, extrinsic=extrinsic, state="judging")
        claim = Claim(
            Role.SUBMISSION, name, hotkey(name), block, extrinsic, repo=f"{name}/model", revision=revision(name)
        )
        self.registry.add(print_, claim)
        self.examine(name, print_, block=block, extrinsic=extrinsic)
        return self.verdicts.judge(entry)

    def examine(self, name: str, print_: Fingerprint, *, block: int, extrinsic: int = 0) -> bool:
        submitted = Submitted(hotkey(name), revision(name), block, extrinsic, print_.content_root)
        claim = Claim(Role.SUBMISSION, name, hotkey(name), block, extrinsic)
        found = self.identifier.identify(Source(print_), limit=16, claim=claim)
        examiner = Examiner(self.registry, owners=self.owners)
        with writing(self.engine) as session:
            row = session.get_one(EntryRow, self.names[name])
            row.content_root = print_.content_root
        return self.verdicts.record_findings(self.names[name], examiner.findings(submitted, self.written(found)))

    def written(self, found: Identification) -> dict[str, Any]:
        """An identification as the pipeline hands it on."""
        matches = [
            {
                "content_root": match.model.content_root,
                "comparison": match.comparison.as_json(),
                "evidence": self.blobs.put(evidence.make(match.comparison, match.inputs)),
            }
            for match in found.matches
        ]
        return {"matches": matches}

    def seats(self, *names: str) -> tuple[Seat, ...]:
        return tuple(Seat(uid, hotkey(name)) for uid, name in enumerate(names or self.names))
