"""Reading a subnet, step by step, into the database: one final block's state and the events of every block before it.

A step looks at the chain first and then writes what it saw in one transaction, with the number of its block: a crash in
between repeats the look, and of two syncers that looked at once the second finds the work done. Blocks that cannot be
read any more, because the service was away longer than the node remembers, are stored as a gap: what was overwritten in
them is unknown, and stays visibly so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Engine

from ..errors import ChainForked, ChainPruned
from ..place import now
from ..store.engine import reading, writing
from . import writing_down as down
from .observed import KEPT_REVEALS, Happenings, SubnetReader, SubnetState

STRIDE: Final = 300
"""Blocks whose events one step reads: an hour of chain."""
REACH: Final = 14_400
"""Blocks the service may be behind and still read each one of them; two days, which take most of an hour to ask for."""
Progress = Callable[[int, int], None]
"""Called with (blocks read, blocks in all) of a step."""


@dataclass(frozen=True)
class Gap:
    """Blocks that were not read, with why; ``hotkeys`` may have lost reveals in them."""

    first: int
    last: int
    reason: str
    hotkeys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Synced:
    """What a step did.

    Args:
        block: Final block up to which the subnet is read now.
        head: Newest block of the chain, not final yet.
        final: Newest final block.
        commits_new: Commitments that were not known before.
        neurons_changed: Uids whose hotkey or owner changed.
        swaps_new: Hotkey swaps that were not known before.
        gap: Blocks that this step had to leave out.
    """

    block: int
    head: int
    final: int
    commits_new: int = 0
    neurons_changed: int = 0
    swaps_new: int = 0
    gap: Gap | None = None

    @property
    def behind(self) -> int:
        """Final blocks that are still to be read."""
        return max(self.final - self.block, 0)


@dataclass(frozen=True)
class Look:
    """What a step saw of the chain before it wrote anything."""

    state: SubnetState
    happened: tuple[Happenings, ...] = ()
    gap: Gap | None = None


class Syncer:
    """Keeps the database at the newest final block of one subnet.

    Args:
        engine: A database at the newest schema.
        reader: The chain.
        genesis: Genesis hash that the chain must have, ``0x`` and 64 hex digits.
        netuid: The subnet.
        clock: When things were seen.
        stride: Blocks whose events one step reads.
        reach: Blocks that are read one by one when the service was away; beyond, they become a gap.
    """

    def __init__(
        self,
        engine: Engine,
        reader: SubnetReader,
        genesis: str,
        netuid: int,
        clock: Callable[[], datetime] = now,
        *,
        stride: int = STRIDE,
        reach: int = REACH,
    ) -> None:
        self._engine, self._reader, self._genesis, self._netuid = engine, reader, genesis, netuid
        self._clock, self._stride, self._reach = clock, max(stride, 1), reach
        self._checked = False

    def step(self, progress: Progress | None = None) -> Synced:
        """Read on, by at most ``stride`` blocks. Safe to repeat, to kill, and to run in several processes.

        Raises:
            ChainUnavailable: The chain could not be asked; nothing was written.
            ChainForked: It is another chain than the one that was read before.
            StoreUnavailable: The database could not be written; nothing was.
        """
        self._same_genesis()
        final = self._reader.finalized()
        head = max(self._reader.head(), final)
        last = self._last()
        if last is not None and final <= last.block:
            return Synced(last.block, head, final)
        if last is not None:
            self._same_chain(last)
        look = self._look(last, final, progress)
        with writing(self._engine) as session:
            down.lock(session)
            book = down.Book(session, self._genesis, self._netuid, self._clock())
            if book.last() != last:  # another syncer was faster
                return Synced(max(found.block if (found := book.last()) else 0, 0), head, final)
            counts = book.write(look.state, look.happened, head=head)
            if look.gap is not None:
                book.gap(look.gap.first, look.gap.last, look.gap.reason, look.gap.hotkeys)
        return Synced(look.state.block.number, head, final, counts.commits, counts.neurons, counts.swaps, look.gap)

    def until_current(self, progress: Progress | None = None) -> Iterator[Synced]:
        """Steps until the newest final block is read; at least one."""
        while True:
            synced = self.step(progress)
            yield synced
            if not synced.behind:
                return

    def _last(self) -> down.Place | None:
        with reading(self._engine) as session:
            return down.Book(session, self._genesis, self._netuid, self._clock()).last()

    def _look(self, last: down.Place | None, final: int, progress: Progress | None) -> Look:
        if last is None:
            return Look(self._reader.state(self._netuid, final))
        first = last.block + 1
        if final - last.block > self._reach:
            return self._jump(first, final, f"{final - last.block} blocks behind, more than are read one by one")
        try:
            return self._read(first, min(final, last.block + self._stride), progress)
        except ChainPruned:
            kept = self._first_kept(first, final)
        reason = "the node no longer has these blocks"
        if kept > final:
            return self._jump(first, final, reason)
        look = self._read(kept, min(final, kept + self._stride - 1), progress)
        return Look(look.state, look.happened, self._gap(first, kept - 1, reason, look.state))

    def _read(self, first: int, last: int, progress: Progress | None) -> Look:
        happened = []
        for block in range(first, last + 1):
            happened.append(self._reader.happened(self._netuid, block))
            if progress is not None:
                progress(block - first + 1, last - first + 1)
        return Look(self._reader.state(self._netuid, last), tuple(happened))

    def _jump(self, first: int, final: int, reason: str) -> Look:
        state = self._reader.state(self._netuid, final)
        if final == first:
            return Look(state)
        return Look(state, gap=self._gap(first, final, reason, state))

    def _gap(self, first: int, last: int, reason: str, state: SubnetState) -> Gap:
        """A gap, with those whose ten kept reveals were all made after it began: older ones may have fallen out."""
        hotkeys = sorted({commit.hotkey for commit in state.commits})
        reveals = {hotkey: state.reveals(hotkey) for hotkey in hotkeys}
        lost = [
            hotkey
            for hotkey, made in reveals.items()
            if len(made) >= KEPT_REVEALS and min(commit.block for commit in made) >= first
        ]
        return Gap(first, last, reason, tuple(lost))

    def _first_kept(self, low: int, final: int) -> int:
        """The oldest block of ``low..final`` that the node still has, by bisection; one past the end if none."""
        high = final + 1
        while low < high:
            middle = (low + high) // 2
            try:
                self._reader.happened(self._netuid, middle)
                high = middle
            except ChainPruned:
                low = middle + 1
        return low

    def _same_genesis(self) -> None:
        if self._checked:
            return
        found = "0x" + self._reader.genesis().hex()
        if found != self._genesis:
            raise ChainForked(
                "the node is of another chain",
                where="genesis",
                got=found,
                expected=self._genesis,
                remedy="Give the network's genesis hash with --genesis, or name a node of this chain.",
            )
        self._checked = True

    def _same_chain(self, last: down.Place) -> None:
        block = self._reader.block(last.block)
        found = "no such block" if block is None else "0x" + block.hash.hex()
        if found != last.block_hash:
            raise ChainForked(
                "a final block is another one now",
                where=f"block {last.block}",
                got=found,
                expected=last.block_hash,
                remedy="Ask another node. If all agree, the chain was rolled back: start a new database.",
            )
