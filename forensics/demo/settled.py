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
from forensics.demo.tape import NETUID
from forensics.entries.claimed import ENDED, State
from forensics.entries.entries import Entries
from forensics.policy.file import default
from forensics.snapshots.contents import assemble
from forensics.snapshots.shelf import Shelf
from forensics.store.blobs import Blobs
from forensics.store.engine import connect
from forensics.verdicts.store import Verdicts

REST = frozenset({*ENDED, State.WAITING})


@dataclass(frozen=True)
class Office:
    """The books of one subnet.

    Attributes:
        engine: The database.
        blobs: Folder of the blob store.
        genesis: The chain.
    """

    engine: Engine
    blobs: Path
    genesis: str

    @classmethod
    def of(cls, home: Path, genesis: str) -> Office:
        """Those of a home that was made with no settings but its own."""
        return cls(connect(f"sqlite:///{home / 'forensics.db'}"), home / "blobs", genesis)

    def published(self) -> bool:
        """Whether there is a snapshot to be read."""
        return Shelf(self.engine, self.genesis).newest_sequence(NETUID) is not None

    def settled(self, commitments: int, published: Sequence[UidVerdict]) -> bool:
        """Whether so many commitments were taken in, each is judged or waits, and what is published says so."""
        entries = Entries(self.engine).of(NETUID, genesis=self.genesis)
        if len(entries) < commitments or any(entry.state not in REST for entry in entries):
            return False
        current = Verdicts(self.engine, Blobs(self.blobs.as_uri()), policy=default()).current(self.genesis, NETUID)
        return assemble(Subnet(self.engine, self.genesis, NETUID).neurons(), current) == tuple(published)

    def path_of(self, digest: str) -> Path:
        """The file of a blob."""
        name = digest.removeprefix("sha256:")
        return self.blobs / name[:2] / name
