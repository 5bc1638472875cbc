"""Whether a miner's word about its own commitment is what the chain says.

A block decides who was first, so nobody's own word about a block counts. A miner may hurry the service along to a
commitment that was seen on chain; it cannot date one back.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, select

from ..store.chain import CommitRow
from ..store.engine import reading


@dataclass(frozen=True)
class Position:
    """Where a commitment stands on chain.

    Args:
        block: Block.
        extrinsic: Index of the extrinsic in it.
    """

    block: int
    extrinsic: int


class Commitments:
    """Commitments that were seen on one chain.

    Args:
        engine: The database.
        genesis: The chain.
    """

    def __init__(self, engine: Engine, genesis: str) -> None:
        self._engine, self._genesis = engine, genesis

    def find(self, netuid: int, hotkey: str, *, repo: str, revision: str) -> Position | None:
        """The hotkey's earliest commitment that names this commit of this repository; None when none was seen."""
        query = (
            select(CommitRow)
            .where(CommitRow.genesis == self._genesis, CommitRow.netuid == netuid, CommitRow.hotkey == hotkey)
            .order_by(CommitRow.block, CommitRow.extrinsic)
        )
        with reading(self._engine) as session:
            for row in session.scalars(query):
                if repo.encode() in row.data and revision.encode() in row.data:
                    return Position(row.block, row.extrinsic)
        return None
