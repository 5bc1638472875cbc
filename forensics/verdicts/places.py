"""Where commitments were bound, as the chain shows it.

A timelocked commitment is bound when it is sealed, not when the chain opens it: all that open in one block open at
once, before its first extrinsic, and would tie. Where a node no longer shows the extrinsic, only the block is known.
"""

from __future__ import annotations

from sqlalchemy import Engine, select

from detectors.copy import Place

from ..store.chain import CommitRow
from ..store.engine import reading


class ChainPlaces:
    """Commitments on one chain.

    Args:
        engine: The database.
        genesis: The chain.
    """

    def __init__(self, engine: Engine, genesis: str) -> None:
        self._engine, self._genesis = engine, genesis

    def bound(self, hotkey: str, committed: Place) -> Place:
        """The place at which a commitment bound what it names.

        Args:
            hotkey: Who committed.
            committed: Where the commitment became readable; returned as it is where the chain's record is not at hand.
        """
        query = select(CommitRow).where(
            CommitRow.genesis == self._genesis, CommitRow.hotkey == hotkey, CommitRow.block == committed.block
        )
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(CommitRow.id)).all()
        found = [row for row in rows if committed.extrinsic in (None, row.extrinsic)]
        if not found:
            return committed
        row = found[0]
        if row.sealed_block is not None:
            return Place(row.sealed_block, row.sealed_extrinsic)
        return committed if row.exact else Place(committed.block)
