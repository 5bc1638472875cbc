"""What nobody should have to remember: reading the chain, moving epochs on, anchoring the log, trying lineages again.

Each is a few lines around something that is safe to repeat. What needs a chain is there only where one is named.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, select

from attest.log import Log

from ..attestations.service import Attestations
from ..chain.keeping import Standing, keep_anchored
from ..chain.observed import SubnetReader
from ..chain.sync import REACH, STRIDE, Syncer
from ..entries.claimed import State
from ..entries.entries import Entries
from ..errors import Unavailable
from ..place import Clock, Place
from ..settings import Settings
from ..store.engine import reading
from ..store.entries import EntryRow
from ..store.epochs import EpochRow
from .fetching import HubFetcher
from .ingest import Ingest
from .tasks import Task

if TYPE_CHECKING:
    from ..chain.subtensor import Subtensor

INGEST_SECONDS = 5.0
EPOCH_SECONDS = 12.0  # a block
ANCHOR_SECONDS = 300.0
RECONSIDER_SECONDS = 300.0
SWEEP_SECONDS = 600.0
WORKING = (State.FETCHING, State.FINGERPRINTING, State.IDENTIFYING, State.JUDGING)


@dataclass
class Upkeep:
    """What the tasks work on; the connection to the chain is made at first use.

    Attributes:
        settings: Of the home.
        engine: The database.
        log: The transparency log.
        attestations: Statements.
        genesis: The chain.
        entries: Entries.
        fetcher: Where checkpoints are kept.
        clock: The time.
    """

    settings: Settings
    engine: Engine
    log: Log
    attestations: Attestations
    genesis: str
    entries: Entries
    fetcher: HubFetcher
    clock: Clock
    _node: Subtensor | None = field(default=None, repr=False)
    _reader: SubnetReader | None = field(default=None, repr=False)

    def sync(self, netuid: int) -> int:
        """Read the subnet up to the newest final block, or a recording to its end; how many steps."""
        from ..chain.recorded_subnet import RecordedSubnet

        if not Path(self.settings.chain).is_file():
            return sum(1 for _ in self._syncer(self._node_reader(), netuid).until_current())
        recorded = RecordedSubnet.parse(Path(self.settings.chain).read_bytes())
        syncer, steps = self._syncer(recorded, netuid, stride=REACH), 0
        while True:
            steps += sum(1 for _ in syncer.until_current())
            if not recorded.advance():
                return steps

    def rotate(self) -> int:
        """Move every living epoch on; how many changes were made."""
        from ..epochs import opening

        done = 0
        for place in self._contests():
            network = opening.network_of(None)
            chain = opening.chain_of(self.settings.chain, self.settings, self.engine, netuid=place.netuid)
            beacons = [b.strip() for b in self.settings.beacons.split(",") if b.strip()]
            rotation = opening.open_rotation(
                self.settings, self.engine, place, chain=chain, beacon=opening.beacon_of(beacons, network=network)
            )
            done += len(rotation.advance())
        return done

    def anchor(self, netuid: int) -> Standing:
        """Keep the log's newest checkpoint anchored.

        Raises:
            Unavailable: It is late, and why.
        """
        from ..chain.anchors import CommitmentAnchors
        from ..log_store import DatabaseAnchors

        anchors = CommitmentAnchors(self._subtensor(), netuid=netuid, book=DatabaseAnchors(self.engine))
        standing = keep_anchored(self.log, anchors)
        if standing.late:
            raise Unavailable("the log is not anchored", got=standing.problem)
        return standing

    def reconsider(self) -> int:
        """Judge again declared lineages that could not be judged; how many changed."""
        return len(self.attestations.reconsider())

    def sweep(self) -> int:
        """Remove the checkpoints that were longest unused."""
        with reading(self.engine) as session:
            query = select(EntryRow.path).where(EntryRow.state.in_(WORKING), EntryRow.path.is_not(None))
            working = frozenset(str(path) for path in session.scalars(query))
        return self.fetcher.sweep(self.settings.keep_checkpoints, working)

    def _syncer(self, reader: SubnetReader, netuid: int, *, stride: int = STRIDE) -> Syncer:
        return Syncer(self.engine, reader, self.genesis, netuid, self.clock, stride=stride)

    def _node_reader(self) -> SubnetReader:
        from ..chain.node import NodeReader

        if self._reader is None:
            self._reader = NodeReader(self._subtensor())
        return self._reader

    def _subtensor(self) -> Subtensor:
        from ..chain.subtensor import Subtensor

        if self._node is None:
            self._node = Subtensor(self.settings.chain, signer=self._signer())
        return self._node

    def _signer(self) -> Any:
        """The hotkey that anchors; None where none is named."""
        if not self.settings.wallet:
            return None
        from ..claims import wallets

        return wallets.keypair(self.settings.wallet, folder=self.settings.wallet_path)

    def _contests(self) -> list[Place]:
        """Contests with epochs; those that ended cost one query."""
        query = select(EpochRow.genesis, EpochRow.netuid, EpochRow.competition).distinct()
        with reading(self.engine) as session:
            found = [Place(*row) for row in session.execute(query.where(EpochRow.genesis == self.genesis))]
        return found


def follow(upkeep: Upkeep, ingest: Ingest, wake: threading.Event) -> list[Task]:
    """Reading the chain, and making entries of what was read."""
    settings = upkeep.settings

    def take_in() -> int:
        made = ingest.run()
        if made:
            wake.set()
        return made

    def look() -> int:
        steps = upkeep.sync(settings.netuid or 0)
        take_in()
        return steps

    chain = [Task("chain", settings.chain_seconds, look, alone=True)] if settings.chain else []
    return [*chain, Task("ingest", INGEST_SECONDS, take_in, alone=True)]


def tasks_of(upkeep: Upkeep) -> list[Task]:
    """Everything else that is done every so often."""
    settings = upkeep.settings
    found = [
        Task("reconsider", RECONSIDER_SECONDS, upkeep.reconsider, alone=True),
        Task("sweep", SWEEP_SECONDS, upkeep.sweep),
    ]
    if settings.chain:
        found.append(Task("epochs", EPOCH_SECONDS, upkeep.rotate, alone=True))
    if settings.chain and settings.wallet and settings.netuid is not None:
        netuid = settings.netuid
        found.append(Task("anchor", ANCHOR_SECONDS, lambda: upkeep.anchor(netuid), alone=True))
    return found


def close(upkeep: Upkeep) -> None:
    """Close the connection to the chain, if there is one."""
    if upkeep._node is not None:
        upkeep._node.close()
        upkeep._node = upkeep._reader = None
