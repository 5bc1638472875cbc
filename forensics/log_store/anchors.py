"""Where a log remembers its anchors: every word about each of them, oldest first, never changed (``chain.AnchorBook``).

The chain shows an account's newest commitment only, so this table is how older anchors are found again. It is no
proof by itself: each row names the block to look at.
"""

from __future__ import annotations

from sqlalchemy import Engine, select

from attest.log.anchor import Anchor

from ..chain.anchors import State
from ..store.engine import translated
from .tables import ANCHOR, lock, prepare


class DatabaseAnchors:
    """The book beside a log's leaves.

    Args:
        engine: From ``forensics.store.engine.connect``; the log's own database.
    """

    def __init__(self, engine: Engine) -> None:
        prepare(engine)
        self._engine = engine

    def add(self, anchor: Anchor, state: State, *, size: int) -> None:
        """Note what is known; durable when this returns."""
        values = {
            "block": anchor.block,
            "extrinsic": anchor.extrinsic,
            "genesis": anchor.genesis,
            "netuid": anchor.netuid,
            "hotkey": anchor.hotkey,
            "digest": anchor.digest,
            "block_hash": anchor.block_hash,
            "size": size,
            "state": str(state),
        }
        with translated(self._engine), self._engine.execution_options(immediate=True).begin() as connection:
            lock(connection)
            connection.execute(ANCHOR.insert().values(**values))

    def entries(self) -> list[tuple[Anchor, State, int]]:
        """Every anchor once, with the newest word about it."""
        with translated(self._engine), self._engine.connect() as connection:
            rows = connection.execute(select(ANCHOR).order_by(ANCHOR.c.number)).all()
        newest: dict[Anchor, tuple[State, int]] = {}
        for row in rows:
            anchor = Anchor(
                row.block,
                row.extrinsic,
                bytes(row.genesis),
                row.netuid,
                bytes(row.hotkey),
                bytes(row.digest),
                bytes(row.block_hash),
            )
            newest[anchor] = (State(row.state), row.size)
        return [(anchor, state, size) for anchor, (state, size) in newest.items()]
