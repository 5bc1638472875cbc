"""Whether a miner's word about its own commitment is what the chain says.

A block decides who was first, so nobody's own word about a block counts. A miner may hurry the service along to a
commitment that was seen on chain; it cannot date one back.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from ..chain.grammar import Named, Rules, parse
from ..chain.observed import Commit, Kind
from ..chain.subnet import Subnet
from ..errors import CommitMalformed


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
        rules: What commitments look like.
    """

    def __init__(self, engine: Engine, genesis: str, rules: Rules) -> None:
        self._engine, self._genesis, self._rules = engine, genesis, rules

    def find(self, netuid: int, hotkey: str, *, repo: str, revision: str) -> Position | None:
        """The hotkey's earliest commitment that names this commit of this repository; None when none was seen."""
        for commit in Subnet(self._engine, self._genesis, netuid).commits([hotkey]):
            if self._says(commit) == (repo, revision):
                return Position(commit.block, commit.extrinsic)
        return None

    def _says(self, commit: Commit) -> tuple[str, str] | None:
        if commit.kind is Kind.SEALED:
            return None
        try:
            said = parse(commit.data, self._rules)
        except CommitMalformed:
            return None
        return (said.repo, said.revision) if isinstance(said, Named) else None
