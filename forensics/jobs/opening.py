"""From settings to a worker: everything it works on, made once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from attest.log import Log

from ..attestations.relations import KnownRelations
from ..attestations.service import Attestations
from ..chain.grammar import Rules
from ..entries.entries import Entries
from ..hooks import tasks as hooks
from ..hub import open_hub
from ..keys import Keys
from ..known.index import Index
from ..known.registry import Registry
from ..log_store import DatabaseLog
from ..place import Clock, now, settings_genesis
from ..policy.file import default, load
from ..settings import Settings
from ..snapshots.publisher import Publisher
from ..store.blobs import Blobs
from ..verdicts.court import Court
from ..verdicts.opening import examiner
from ..verdicts.store import Verdicts
from .feeding import Feeder
from .fetching import HubFetcher, host_of
from .ingest import Ingest
from .inline import InlineJobs
from .interface import Jobs, Steps
from .pipeline import Desk, Pipeline, Places
from .publishing import Press
from .sandbox import Limits, Sandbox
from .scans import Scans
from .tasks import Board, Say, Task
from .upkeep import Upkeep, close, follow, tasks_of
from .worker import Crew, once, run
from .workers import SLOTS, Workers, slot


@dataclass(frozen=True)
class Service:
    """What a worker works on.

    Attributes:
        settings: Of the home.
        engine: The database.
        entries: Entries.
        fetcher: Where files come from.
        sandbox: Where checkpoints are read.
        pipeline: The steps.
        press: Publishes.
        log: The transparency log.
        attestations: Statements.
        genesis: The chain.
        clock: The time.
    """

    settings: Settings
    engine: Engine
    entries: Entries
    fetcher: HubFetcher
    sandbox: Sandbox
    pipeline: Pipeline
    press: Press
    log: Log
    attestations: Attestations
    genesis: str
    clock: Clock

    @classmethod
    def open(cls, settings: Settings, engine: Engine, *, clock: Clock = now) -> Service:
        """The service of one home; keys, tables and log are made where they are missing.

        Raises:
            LogTampered: The stored log is not the one that was signed; nothing starts.
            StoreUnavailable: Database or blobs cannot be used.
        """
        keys = Keys.of(settings)
        signer = keys.service()
        log = Log(DatabaseLog(engine), signer, origin=keys.service_public(origin=settings.origin).name)
        blobs, genesis = Blobs(settings.blobs_url), settings_genesis(settings)
        policy = load(settings.policy) if settings.policy is not None else default()
        verdicts = Verdicts(engine, blobs, policy=policy, clock=clock)
        publisher = Publisher(
            engine,
            log,
            signer,
            verdicts=verdicts,
            policy=policy,
            network=settings.network,
            genesis=genesis,
            competition=settings.competition,
            clock=clock,
        )
        press = Press(engine, publisher, genesis=genesis, netuid=settings.netuid)
        entries = Entries(engine, clock=clock)
        fetcher = HubFetcher(open_hub(settings), settings.home / "checkpoints")
        registry, index = Registry(engine, blobs, clock=clock), Index(engine, settings.home / "cache")
        attestations = Attestations(
            engine=engine,
            blobs=blobs,
            log=log,
            registry=registry,
            relations=KnownRelations(registry, index, blobs),
            genesis=genesis,
            netuid=settings.netuid,
            clock=clock,
        )
        sandbox = Sandbox(Limits(settings.reader_memory, settings.reader_seconds))
        desk = Desk(
            entries=entries,
            fetcher=fetcher,
            sandbox=sandbox,
            registry=registry,
            index=index,
            scans=Scans(engine, clock=clock),
            blobs=blobs,
            court=Court(
                verdicts, examiner(engine, registry, genesis=genesis, netuid=settings.netuid, attestations=attestations)
            ),
            places=Places(settings.database_url, settings.blobs_url, str(settings.home / "cache")),
            published=press.wish,
            candidates=settings.candidates,
            clock=clock,
        )
        return cls(
            settings, engine, entries, fetcher, sandbox, Pipeline(desk), press, log, attestations, genesis, clock
        )

    def upkeep(self) -> Upkeep:
        """What is done every so often besides the queue."""
        return Upkeep(
            settings=self.settings,
            engine=self.engine,
            log=self.log,
            attestations=self.attestations,
            genesis=self.genesis,
            entries=self.entries,
            fetcher=self.fetcher,
            clock=self.clock,
        )

    def ingest(self) -> Ingest | None:
        """Makes entries of what was read from the chain; None where no subnet is named."""
        if self.settings.netuid is None:
            return None
        return Ingest(
            self.engine,
            self.entries,
            genesis=self.genesis,
            netuid=self.settings.netuid,
            rules=Rules.of(self.settings.commit_rules),
        )

    def feeder(self, jobs: Jobs) -> Feeder:
        """Keeps a queue supplied."""
        host = host_of(self.settings.hub)
        return Feeder(self.entries, jobs, host=lambda claimed: host, clock=self.clock)

    @property
    def slots(self) -> int:
        """How many workers there may be: DBOS on SQLite wants to be alone."""
        return 1 if self.engine.dialect.name == "sqlite" else SLOTS


Queue = Callable[[Steps, str], Jobs]
"""Makes the durable queue of a worker of this name."""


def work(service: Service, stop: threading.Event, *, queue: Queue, say: Say) -> None:
    """Work until ``stop`` is set.

    Raises:
        Unavailable: Another worker works on this home.
    """
    with slot(service.settings.home, most=service.slots) as name:
        jobs = queue(service.pipeline, name)
        wake = threading.Event()
        upkeep = service.upkeep()
        crew = Crew(
            name=name,
            jobs=jobs,
            feeder=service.feeder(jobs),
            workers=Workers(service.engine, clock=service.clock),
            board=Board(service.engine, name, clock=service.clock),
            tasks=_tasks(service, upkeep, wake),
        )
        try:
            say(f"worker {name} started")
            service.sandbox.warm()
            run(crew, stop, say=say, wake=wake)
        finally:
            close(upkeep)


def work_once(service: Service, *, say: Say) -> int:
    """Look at the chain once, do everything that is due, publish; how many turns of work that were.

    Raises:
        Unavailable: Another worker works on this home.
    """
    with slot(service.settings.home, most=service.slots):
        jobs = InlineJobs(service.pipeline)
        upkeep = service.upkeep()
        try:
            return once(_tasks(service, upkeep, threading.Event()), service.feeder(jobs), jobs, say=say)
        finally:
            close(upkeep)


def _tasks(service: Service, upkeep: Upkeep, wake: threading.Event) -> list[Task]:
    """Chain first, publishing last."""
    press = Task("publish", 2.0, service.press.run, wake=service.press.wake, rest=1.0)
    ingest = service.ingest()
    reading = [] if ingest is None else follow(upkeep, ingest, wake)
    signer = Keys.of(service.settings).service()
    telling = hooks.tasks_of(service.settings, service.engine, signer, genesis=service.genesis, clock=service.clock)
    return [*reading, *tasks_of(upkeep), *telling, press]
