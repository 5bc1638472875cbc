"""Where the newest snapshot of a subnet comes from; ``forensics.snapshots.Shelf`` is one."""

from __future__ import annotations

from typing import Protocol

from ...snapshots.shelf import Stored


class Shelf(Protocol):
    """Signed snapshots by subnet."""

    def newest_sequence(self, netuid: int) -> int | None:
        """Number of the newest snapshot, None where none was published; cheap, for it is asked all the time."""

    def newest(self, netuid: int) -> Stored | None:
        """The newest snapshot."""
