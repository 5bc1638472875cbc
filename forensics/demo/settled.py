"""When nothing is under way any more: the demo looks at the service's own books to know when to stop waiting.

What is shown and marked comes from the client alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from attest.predicates.verdict import UidVerdict
from forensics.chain.subnet import Subnet
from forensics.entries.claimed import ENDED, State
from forensics.entries.entries import Entries
from forensics.policy.file import default
from forensics.settings import Settings
from forensics.snapshots.contents import assemble
from forensics.store.blobs import Blobs
from forensics.store.engine import connect
from forensics.verdicts.store import Verdicts

REST = frozenset({*ENDED, State.WAITING})


@dataclass(frozen=True)
class Office:
    """The books of one subnet.

    Attributes:
        engine: The database.
        blobs: The blob store.
        genesis: The chain.
        netuid: The subnet.
    """

    engine: Engine
    blobs: Blobs
    genesis: str
    netuid: int

    @classmethod
    def of(cls, settings: Settings) -> Office:
        """Those that the settings name."""
        return cls(
            connect(settings.database_url), Blobs(settings.blobs_url), settings.genesis, settings.netuid or 0
        )

    def settled(self, commitments: int, published: Sequence[UidVerdict]) -> bool:
        """Whether so many commitments were taken in, each is judged or waits, and what is published says so."""
        entries = Entries(self.engine).of(self.netuid, genesis=self.genesis)
        if len(entries) < commitments or any(entry.state not in REST for entry in entries):
            return False
        current = Verdicts(self.engine, self.blobs, policy=default()).current(self.genesis, self.netuid)
        return assemble(Subnet(self.engine, self.genesis, self.netuid).neurons(), current) == tuple(published)

    def path_of(self, digest: str) -> Path:
        """The file of a blob in the local store."""
        name = digest.removeprefix("sha256:")
        return Path(self.blobs.root) / name[:2] / name
