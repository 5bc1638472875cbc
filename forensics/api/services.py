"""What the routers work on, made once when the service starts and handed in; tests hand in their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Engine

from attest.keys.service import account
from attest.log import Log
from attest.log.note import NoteKey
from attest.seeds.seal import SealKey

from .. import logs
from ..attestations.relations import KnownRelations
from ..attestations.service import Attestations
from ..chain.grammar import Rules
from ..entries.entries import Entries
from ..epochs.opening import seal_key
from ..hooks.sealing import Sealer
from ..hooks.subscriptions import Subscriptions
from ..keys import Keys
from ..known.index import Index
from ..known.registry import Registry
from ..log_store import DatabaseLog
from ..place import now, settings_genesis
from ..snapshots.shelf import Shelf
from ..store.blobs import Blobs
from .asking import Asking
from .commitments import Commitments
from .idempotency import Answers
from .metrics import Counts
from .nonces import DatabaseNonces
from .rates import Buckets, Rate
from .roles import Roles
from .verdicts.newest import Newest

if TYPE_CHECKING:
    from ..settings import Settings

BURST_SECONDS: Final = 10.0
"""After a pause, as many requests at once as would be allowed in this time."""
Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Services:
    """Everything behind the door.

    Args:
        engine: The database.
        log: The transparency log.
        log_key: Its public key and name.
        hotkey: The service's account, to which signed requests are bound.
        network: Name of the chain.
        genesis: Genesis hash of the chain.
        netuid: The only subnet served; None for any.
        attestations: Statements.
        nonces: Signed requests that were accepted.
        answers: Answers to requests with an Idempotency-Key.
        clock: The time.
        seal_key: Opens the hidden seeds at rest.
        snapshots: Newest signed snapshots, in memory.
        entries: Submissions on their way to a verdict.
        commitments: What was seen on chain.
        roles: Who may do what.
        addresses: How often an address may ask.
        hotkeys: How often a hotkey may.
        counts: What is counted.
        blobs: Evidence and statements.
        asking: Identifies fingerprints.
        hooks: Who is told of changed verdicts.
    """

    engine: Engine
    log: Log
    log_key: NoteKey
    hotkey: str
    network: str
    genesis: str
    netuid: int | None
    attestations: Attestations
    nonces: DatabaseNonces
    answers: Answers
    clock: Clock
    seal_key: SealKey
    snapshots: Newest
    entries: Entries
    commitments: Commitments
    roles: Roles
    addresses: Buckets
    hotkeys: Buckets
    counts: Counts
    blobs: Blobs
    asking: Asking
    hooks: Subscriptions

    @classmethod
    def open(cls, settings: Settings, engine: Engine, *, clock: Clock = now) -> Services:
        """The services of one home; makes its keys, tables and log where they are missing.

        Raises:
            LogTampered: The stored log is not the one that was signed; nothing starts.
            StoreUnavailable: Database or blobs cannot be used.
        """
        keys = Keys.of(settings)
        signer = keys.service()
        log_key = keys.service_public(origin=settings.origin)
        log = Log(DatabaseLog(engine), signer, origin=log_key.name)
        blobs = Blobs(settings.blobs_url)
        registry = Registry(engine, blobs, clock=clock)
        genesis = settings_genesis(settings)
        return cls(
            engine=engine,
            log=log,
            log_key=log_key,
            hotkey=account(signer).address,
            network=settings.network,
            genesis=genesis,
            netuid=settings.netuid,
            attestations=Attestations(
                engine=engine,
                blobs=blobs,
                log=log,
                registry=registry,
                relations=KnownRelations(registry, Index(engine, Path(settings.home) / "cache"), blobs),
                genesis=genesis,
                netuid=settings.netuid,
                clock=clock,
            ),
            nonces=DatabaseNonces(engine, clock=clock),
            answers=Answers(engine, clock=clock),
            clock=clock,
            seal_key=seal_key(settings),
            snapshots=Newest(Shelf(engine, genesis), only=settings.netuid, failed=_note),
            entries=Entries(engine, clock=clock),
            commitments=Commitments(engine, genesis, Rules.of(settings.commit_rules)),
            roles=Roles.of(settings, engine, genesis),
            addresses=Buckets(Rate(settings.address_rate, BURST_SECONDS * settings.address_rate)),
            counts=Counts(),
            blobs=blobs,
            asking=Asking.of(settings, engine),
            hooks=Subscriptions(engine, genesis, Sealer(signer), loopback=settings.hooks_loopback, clock=clock),
            hotkeys=Buckets(Rate(settings.hotkey_rate, BURST_SECONDS * settings.hotkey_rate)),
        )

    def warm(self) -> None:
        """Load now what the first request would wait for: a signed one that waits ten seconds is refused as stale."""
        for name in ("bittensor.http_auth", "bittensor.wallets", "fingerprint.compare", "forensics.evidence"):
            import_module(name)


def _note(error: Exception) -> None:
    """Why the newest snapshot could not be looked up; what is held is served on."""
    logs.logger("forensics.snapshots").warning("snapshot not read", error=str(error))
