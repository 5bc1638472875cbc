"""A pipeline on a fresh database, with folders for a hub and a court that writes down what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from forensics.entries.claimed import Claimed, Entry, State
from forensics.entries.entries import Entries
from forensics.errors import Unavailable
from forensics.jobs.feeding import Feeder
from forensics.jobs.inline import InlineJobs
from forensics.jobs.pipeline import Desk, Pipeline, Places
from forensics.jobs.sandbox import Limits, Sandbox
from forensics.jobs.scans import Scans
from forensics.known.index import Index
from forensics.known.registry import Registry
from forensics.store.blobs import Blobs
from tests.forensics import models

GENESIS = "0x" + "ab" * 32
NETUID = 7


class NotThere(Unavailable):
    """The hub has it not."""

    def __init__(self, state: str) -> None:
        super().__init__(f"hub says {state}")
        self.state = state


@dataclass
class Folders:
    """A hub: ``owner/name/revision`` below a root; answers can be scripted."""

    root: Path
    answers: dict[str, list[str]] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)

    def fetch(self, claimed: Claimed) -> Path:
        self.fetched.append(claimed.repo)
        if self.answers.get(claimed.repo):
            raise NotThere(self.answers[claimed.repo].pop(0))
        path = self.root / claimed.repo / claimed.revision
        if not path.exists():
            raise NotThere("not_found")
        return path


@dataclass
class Notes:
    """A court that writes down what it is told."""

    detected: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    judged: list[tuple[str, State, str | None]] = field(default_factory=list)

    def detect(self, entry: Entry, identified: dict[str, Any]) -> None:
        self.detected.append((entry.claimed.hotkey, identified))

    def judge(self, entry: Entry) -> None:
        self.judged.append((entry.claimed.hotkey, entry.state, entry.code))

    def relation(self, hotkey: str) -> dict[str, tuple[str, bool]]:
        """What the newest comparison said of each known model: relation, and whether it counts."""
        found = [d for h, d in self.detected if h == hotkey][-1]
        return {m["content_root"]: (m["comparison"]["relation"], m["counts"]) for m in found["matches"]}


@dataclass
class Workshop:
    """Everything together, worked inline."""

    entries: Entries
    hub: Folders
    court: Notes
    pipeline: Pipeline
    jobs: InlineJobs
    feeder: Feeder
    registry: Registry
    wishes: list[tuple[str, int]]

    def work(self) -> None:
        """Until nothing is due."""
        while self.feeder.feed():
            self.jobs.work()

    def commit(self, hotkey: str, block: int, *, extrinsic: int = 0, repo: str | None = None) -> Entry:
        claimed = Claimed(GENESIS, NETUID, hotkey, repo or f"{hotkey}/model", "a" * 40, block, extrinsic)
        return self.entries.accept(claimed, "test")

    def upload(self, repo: str, tensors: models.Tensors) -> None:
        models.write(tensors, self.hub.root / repo / ("a" * 40))


def workshop(engine: Engine, folder: Path, clock: Any, *, limits: Limits | None = None) -> Workshop:
    entries = Entries(engine, clock=clock)
    blobs = Blobs((folder / "blobs").as_uri())
    registry = Registry(engine, blobs, clock=clock)
    hub, court, wishes = Folders(folder / "hub"), Notes(), []
    pipeline = Pipeline(
        Desk(
            entries=entries,
            fetcher=hub,
            sandbox=Sandbox(limits),
            registry=registry,
            index=Index(engine, folder / "cache"),
            scans=Scans(engine, clock=clock),
            blobs=blobs,
            court=court,
            places=Places(
                engine.url.render_as_string(hide_password=False), (folder / "blobs").as_uri(), str(folder / "cache")
            ),
            published=lambda genesis, netuid: wishes.append((genesis, netuid)),
            clock=clock,
        )
    )
    jobs = InlineJobs(pipeline)
    feeder = Feeder(entries, jobs, host=lambda claimed: "hub", clock=clock)
    return Workshop(entries, hub, court, pipeline, jobs, feeder, registry, wishes)
