"""A subnet as it was read into the database: what everything after the chain works from.

Nothing here asks a chain. ``claims`` (in ``forensics.chain.claims``) says what each hotkey's commitments mean.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, select

from ..store.chain import CommitRow, GapRow, NeuronRow, SwapRow, SyncRow
from ..store.engine import reading
from .observed import Commit, Kind, Neuron, Swap
from .sync import Gap


@dataclass(frozen=True)
class Progress:
    """How far a subnet was read.

    Args:
        started: Block of the first look; what came before is known as far as the chain still showed it then.
        block: Newest final block that was read in whole.
        block_hash: Its hash, ``0x`` and 64 hex digits.
        head: Newest block there was at that time.
        synced_at: When.
    """

    started: int
    block: int
    block_hash: str
    head: int
    synced_at: datetime


class Subnet:
    """One subnet of one chain.

    Args:
        engine: A database at the newest schema.
        genesis: Genesis hash, ``0x`` and 64 hex digits.
        netuid: The subnet.
    """

    def __init__(self, engine: Engine, genesis: str, netuid: int) -> None:
        self.genesis, self.netuid = genesis, netuid
        self._engine = engine
        self._where: dict[str, Any] = {"genesis": genesis, "netuid": netuid}

    def progress(self) -> Progress | None:
        """How far it was read; None before the first step."""
        with reading(self._engine) as session:
            row = session.get(SyncRow, (self.genesis, self.netuid))
            return None if row is None else Progress(row.started, row.block, row.block_hash, row.head, row.synced_at)

    def block(self) -> int | None:
        """Newest final block that was read; None before the first step."""
        progress = self.progress()
        return None if progress is None else progress.block

    def neurons(self) -> tuple[Neuron, ...]:
        """Who is on the subnet, by uid."""
        query = select(NeuronRow).filter_by(**self._where, until=None).order_by(NeuronRow.uid)
        with reading(self._engine) as session:
            return tuple(_neuron(row) for row in session.scalars(query))

    def times(self, hotkey: str) -> tuple[tuple[Neuron, int, int | None], ...]:
        """Every time a hotkey was on the subnet, oldest first: the neuron, since which block, until which one."""
        query = select(NeuronRow).filter_by(**self._where, hotkey=hotkey).order_by(NeuronRow.since, NeuronRow.id)
        with reading(self._engine) as session:
            return tuple((_neuron(row), row.since, row.until) for row in session.scalars(query))

    def commits(self, hotkeys: Sequence[str] | None = None, *, since: int = 0) -> tuple[Commit, ...]:
        """Commitments in the chain's order, of some hotkeys or of all that ever committed.

        Args:
            hotkeys: Whose; everyone's when not given.
            since: First block to include.
        """
        query = select(CommitRow).filter_by(**self._where).where(CommitRow.block >= since)
        if hotkeys is not None:
            query = query.where(CommitRow.hotkey.in_(list(hotkeys)))
        query = query.order_by(CommitRow.block, CommitRow.extrinsic, CommitRow.hotkey, CommitRow.id)
        with reading(self._engine) as session:
            return tuple(_commit(row) for row in session.scalars(query))

    def swaps(self) -> tuple[Swap, ...]:
        """Hotkey swaps in the chain's order."""
        query = select(SwapRow).filter_by(**self._where).order_by(SwapRow.block, SwapRow.extrinsic, SwapRow.id)
        with reading(self._engine) as session:
            return tuple(Swap(row.old, row.new, row.block, row.extrinsic, row.exact) for row in session.scalars(query))

    def gaps(self) -> tuple[Gap, ...]:
        """Blocks that were never read, oldest first."""
        query = select(GapRow).filter_by(**self._where).order_by(GapRow.first)
        with reading(self._engine) as session:
            return tuple(
                Gap(row.first, row.last, row.reason, tuple(json.loads(row.hotkeys))) for row in session.scalars(query)
            )


def _neuron(row: NeuronRow) -> Neuron:
    return Neuron(row.uid, row.hotkey, row.coldkey, row.registered, row.permit, row.endpoint, row.registrant)


def _commit(row: CommitRow) -> Commit:
    return Commit(
        hotkey=row.hotkey,
        block=row.block,
        extrinsic=row.extrinsic,
        data=bytes(row.data),
        kind=Kind(row.kind),
        exact=row.exact,
        sealed_block=row.sealed_block,
        sealed_extrinsic=row.sealed_extrinsic,
        reveal_round=row.reveal_round,
    )
