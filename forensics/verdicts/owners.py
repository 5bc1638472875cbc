"""Who stands behind a hotkey, as the chain shows it: its coldkey, and the hotkey it took the place of.

A party is not wronged by itself. Two hotkeys of one coldkey, or a hotkey and the one it was swapped for, are one party;
swaps that were only inferred from two looks count as well, for they can spare somebody and accuse nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine, func, select

from ..store.chain import NeuronRow, SwapRow
from ..store.engine import reading


class ChainOwners:
    """Owners on one chain, over all of its subnets; read again when there is something new.

    Args:
        engine: The database.
        genesis: The chain.
        origin: The hotkey that one started with, through hand-overs that were signed and not seen as swaps.
    """

    def __init__(self, engine: Engine, genesis: str, *, origin: Callable[[str], str] = lambda hotkey: hotkey) -> None:
        self._engine, self._genesis, self._origin = engine, genesis, origin
        self._version: tuple[object, ...] = ()
        self._coldkeys: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def coldkey(self, hotkey: str) -> str | None:
        """Its newest owner, where the chain shows one."""
        self._refresh()
        return self._coldkeys.get(hotkey)

    def operator(self, hotkey: str) -> str | None:
        """The hotkey that its owner started with, through swaps."""
        self._refresh()
        seen = {hotkey}
        while (before := self._before.get(hotkey)) is not None and before not in seen:
            seen.add(before)
            hotkey = before
        return self._origin(hotkey)

    def _refresh(self) -> None:
        with reading(self._engine) as session:
            neurons = select(func.max(NeuronRow.id)).where(NeuronRow.genesis == self._genesis)
            swaps = select(func.max(SwapRow.id)).where(SwapRow.genesis == self._genesis)
            version = (session.scalar(neurons), session.scalar(swaps))
            if version == self._version:
                return
            owned = select(NeuronRow.hotkey, NeuronRow.coldkey).where(NeuronRow.genesis == self._genesis)
            rows = session.execute(owned.order_by(NeuronRow.since, NeuronRow.id)).all()
            self._coldkeys = {hotkey: coldkey for hotkey, coldkey in rows if coldkey}
            swapped = select(SwapRow.new, SwapRow.old).where(SwapRow.genesis == self._genesis)
            self._before = {new: old for new, old in session.execute(swapped.order_by(SwapRow.block, SwapRow.id))}
        self._version = version
