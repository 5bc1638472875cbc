"""When the chain held a checkpoint: what was logged before that checkpoint was there by that block."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine, func, select

from attest.log.anchor import Anchor
from attest.log.note import Checkpoint
from attest.priority import Binding, By, Position

from ..store.attestation import AnchorRow
from ..store.engine import reading, writing


class Anchors:
    """Anchors of one log on one chain.

    Args:
        engine: The database.
        genesis: The chain; anchors on others do not count.
        clock: The time, for the record only.
    """

    def __init__(self, engine: Engine, *, genesis: str, clock: Callable[[], datetime]) -> None:
        self._engine, self._genesis, self._clock = engine, genesis, clock

    def add(self, checkpoint: Checkpoint, anchor: Anchor) -> bool:
        """Remember that a block holds this checkpoint's digest; whether that is news.

        Args:
            checkpoint: A checkpoint of this service's log; its size says which leaves the anchor binds.
            anchor: Seen on chain by the caller.
        """
        if anchor.digest != checkpoint.digest():
            return False
        genesis = "0x" + anchor.genesis.hex()
        with writing(self._engine) as session:
            same = select(AnchorRow.id).where(
                AnchorRow.digest == anchor.digest.hex(),
                AnchorRow.genesis == genesis,
                AnchorRow.block == anchor.block,
                AnchorRow.extrinsic == anchor.extrinsic,
            )
            if session.scalar(same) is not None:
                return False
            session.add(
                AnchorRow(
                    digest=anchor.digest.hex(),
                    size=checkpoint.size,
                    genesis=genesis,
                    netuid=anchor.netuid,
                    hotkey=anchor.hotkey.hex(),
                    block=anchor.block,
                    extrinsic=anchor.extrinsic,
                    added_at=self._clock(),
                )
            )
        return True

    def version(self) -> int:
        """Grows with every anchor that is added."""
        with reading(self._engine) as session:
            return session.scalar(select(func.max(AnchorRow.id))) or 0

    def binding(self, log_index: int) -> Binding | None:
        """The earliest place on chain that binds a leaf; None while no anchored checkpoint covers it."""
        earliest = (
            select(AnchorRow)
            .where(AnchorRow.size > log_index, AnchorRow.genesis == self._genesis)
            .order_by(AnchorRow.block, AnchorRow.extrinsic)
            .limit(1)
        )
        with reading(self._engine) as session:
            row = session.scalar(earliest)
        if row is None:
            return None
        return Binding(Position(row.block, row.extrinsic), By.ATTESTATION, row.digest)
