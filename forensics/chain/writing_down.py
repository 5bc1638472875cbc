"""What was seen of a subnet, as rows: added, closed and made more exact, never changed in meaning.

Called inside one transaction. Every rule here is idempotent: the same look written twice leaves the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from ..store.chain import CommitRow, GapRow, NeuronRow, SwapRow, SyncRow
from .observed import BEFORE_EXTRINSICS, Commit, Happenings, Neuron, SubnetState, Swap
from .occupancy import Time, follow

ADVISORY_LOCK: Final = 0x636861696E  # "chain": any constant that no other program uses
MAX_ENDPOINT: Final = 64


@dataclass(frozen=True)
class Place:
    """How far a subnet was read."""

    block: int
    block_hash: str


@dataclass(frozen=True)
class Counts:
    """Rows that were new."""

    commits: int
    neurons: int
    swaps: int


def lock(session: Session) -> None:
    """Hold the right to write until the transaction ends; SQLite's writers hold it already."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(text(str(ADVISORY_LOCK)))))


class Book:
    """The rows of one subnet.

    Args:
        session: An open transaction.
        genesis: The chain.
        netuid: The subnet.
        moment: When this is written.
    """

    def __init__(self, session: Session, genesis: str, netuid: int, moment: datetime) -> None:
        self._session, self._genesis, self._netuid, self._moment = session, genesis, netuid, moment

    def last(self) -> Place | None:
        """How far the subnet was read."""
        row = self._session.get(SyncRow, (self._genesis, self._netuid))
        return None if row is None else Place(row.block, row.block_hash)

    def write(self, state: SubnetState, happened: Sequence[Happenings], *, head: int) -> Counts:
        """Take over a look at the chain."""
        swaps = [one for block in happened for one in block.swaps]
        commits = [one for block in happened for one in block.commits]
        open_rows = self._open()
        swapped = self._swaps(swaps, open_rows, state)
        changed = self._neurons(state, happened, open_rows)
        counts = Counts(self._commits([*commits, *state.commits]), changed, swapped)
        self._progress(state, head)
        return counts

    def gap(self, first: int, last: int, reason: str, hotkeys: Sequence[str]) -> None:
        """Note blocks that were not read."""
        where = {"genesis": self._genesis, "netuid": self._netuid, "first": first, "last": last}
        if self._session.scalar(select(GapRow.id).filter_by(**where)) is None:
            self._session.add(GapRow(**where, reason=reason, hotkeys=json.dumps(list(hotkeys)), found_at=self._moment))

    def _progress(self, state: SubnetState, head: int) -> None:
        row = self._session.get(SyncRow, (self._genesis, self._netuid))
        if row is None:
            row = SyncRow(genesis=self._genesis, netuid=self._netuid, started=state.block.number)
            self._session.add(row)
        row.block, row.block_hash = state.block.number, "0x" + state.block.hash.hex()
        row.head, row.synced_at = head, self._moment

    def _commits(self, commits: Iterable[Commit]) -> int:
        wanted: dict[tuple[str, int, str], Commit] = {}
        for commit in commits:
            key = (commit.hotkey, commit.block, sha256(commit.data).hexdigest())
            if key not in wanted or _better(commit, wanted[key]):
                wanted[key] = commit
        if not wanted:
            return 0
        oldest = min(block for _, block, _ in wanted)
        query = select(CommitRow).filter_by(genesis=self._genesis, netuid=self._netuid).where(CommitRow.block >= oldest)
        known = {(row.hotkey, row.block, row.digest): row for row in self._session.scalars(query)}
        new = {key: commit for key, commit in wanted.items() if key not in known}
        for key, row in known.items():
            if key in wanted:
                _sharpen(row, wanted[key])
        order = sorted(new.items(), key=lambda item: (item[1].block, item[1].extrinsic, item[0]))
        self._session.add_all(self._commit_row(digest, commit) for (_, _, digest), commit in order)
        return len(new)

    def _commit_row(self, digest: str, commit: Commit) -> CommitRow:
        return CommitRow(
            genesis=self._genesis,
            netuid=self._netuid,
            hotkey=commit.hotkey,
            block=commit.block,
            extrinsic=commit.extrinsic,
            kind=str(commit.kind),
            data=commit.data,
            digest=digest,
            exact=commit.exact,
            sealed_block=commit.sealed_block,
            sealed_extrinsic=commit.sealed_extrinsic,
            reveal_round=commit.reveal_round,
            seen_at=self._moment,
        )

    def _open(self) -> dict[int, NeuronRow]:
        query = select(NeuronRow).filter_by(genesis=self._genesis, netuid=self._netuid, until=None)
        return {row.uid: row for row in self._session.scalars(query)}

    def _neurons(self, state: SubnetState, happened: Sequence[Happenings], open_rows: dict[int, NeuronRow]) -> int:
        """Close what ended and open what began; how many uids that were."""
        before = {uid: Time(_neuron(row), row.since) for uid, row in open_rows.items()}
        found = follow(before, happened, state)
        for uid, until in found.ended.items():
            open_rows[uid].until = until
        for uid, neuron in found.lasting.items():
            row = open_rows[uid]
            row.permit, row.endpoint = neuron.permit, _endpoint(neuron)
            row.registrant = row.registrant or neuron.registrant
        self._session.add_all(self._neuron_row(time) for time in found.begun)
        return found.changed

    def _neuron_row(self, time: Time) -> NeuronRow:
        neuron = time.neuron
        return NeuronRow(
            genesis=self._genesis,
            netuid=self._netuid,
            uid=neuron.uid,
            hotkey=neuron.hotkey,
            coldkey=neuron.coldkey,
            registered=neuron.registered,
            permit=neuron.permit,
            endpoint=_endpoint(neuron),
            registrant=neuron.registrant,
            since=time.since,
            until=time.until,
        )

    def _swaps(self, swaps: Sequence[Swap], open_rows: dict[int, NeuronRow], state: SubnetState) -> int:
        """Swaps that concern this subnet: those that events name, and those that the state gives away."""
        here = {row.hotkey for row in open_rows.values()} | {neuron.hotkey for neuron in state.neurons}
        for swap in [*swaps, *reversed(swaps)]:  # also through keys that came and went between two looks
            here |= {swap.old, swap.new} if {swap.old, swap.new} & here else set()
        found = [swap for swap in swaps if swap.old in here or swap.new in here]
        told = {(swap.old, swap.new) for swap in found}
        news = {swap.new for swap in found}
        for neuron in state.neurons:
            row = open_rows.get(neuron.uid)
            if row is None or row.hotkey == neuron.hotkey or row.registered != neuron.registered:
                continue
            if (row.hotkey, neuron.hotkey) not in told and neuron.hotkey not in news:
                found.append(Swap(row.hotkey, neuron.hotkey, state.block.number, BEFORE_EXTRINSICS, exact=False))
        query = select(SwapRow.old, SwapRow.new, SwapRow.block).filter_by(genesis=self._genesis, netuid=self._netuid)
        known = {tuple(row) for row in self._session.execute(query)}
        new = {(s.old, s.new, s.block): s for s in found if (s.old, s.new, s.block) not in known}
        self._session.add_all(
            SwapRow(
                genesis=self._genesis,
                netuid=self._netuid,
                old=swap.old,
                new=swap.new,
                block=swap.block,
                extrinsic=swap.extrinsic,
                exact=swap.exact,
            )
            for swap in new.values()
        )
        return len(new)


def _neuron(row: NeuronRow) -> Neuron:
    return Neuron(row.uid, row.hotkey, row.coldkey, row.registered, row.permit, row.endpoint, row.registrant)


def _endpoint(neuron: Neuron) -> str | None:
    return (neuron.endpoint or "")[:MAX_ENDPOINT] or None


def _better(one: Commit, other: Commit) -> bool:
    return (one.exact, one.sealed_block is not None) > (other.exact, other.sealed_block is not None)


def _sharpen(row: CommitRow, commit: Commit) -> None:
    """Fill in what was not known when the row was made."""
    if commit.exact and not row.exact:
        row.extrinsic, row.exact = commit.extrinsic, True
    if row.sealed_block is None and commit.sealed_block is not None:
        row.sealed_block, row.sealed_extrinsic = commit.sealed_block, commit.sealed_extrinsic
