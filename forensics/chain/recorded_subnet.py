"""A subnet in a file: what a chain showed of it at several final blocks, and in the blocks between.

``Recorder`` sits before a reader and keeps its answers while a ``Syncer`` works; ``RecordedSubnet`` gives them again,
moment by moment, so that the same sync can be done where there is no network. A recording proves as much as whoever
made it is believed. Blocks that were not recorded are gone, as on a node that is no archive.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from attest.canonical import read_canonical, write
from attest.errors import AttestError, MalformedInput
from attest.predicates.fields import AddressText, Count, Genesis, Hex32, Instant, Netuid
from attest.predicates.fields import Block as Number
from attest.record import Address, Choice, Flag, Integer, ListOf, Nested, Nullable, Record, Text

from ..errors import BadInput, ChainPruned
from .interface import Block
from .observed import Commit, Happenings, Kind, Neuron, Registered, SubnetReader, SubnetState, Swap

SCHEMA: Final = "forensics/subnet-recording/v1"
MAX_BYTES: Final = 64 << 20
MAX_MOMENTS: Final = 4_096
MAX_ROWS: Final = 1 << 16
MAX_DATA: Final = 4_096
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_ADDRESS: Final = Text(r"[1-9A-HJ-NP-Za-km-z]{46,48}|", 48)
_MAYBE: Final = Nullable(Integer())


@dataclass(frozen=True)
class NeuronEntry(Record):
    """A hotkey on a uid."""

    uid: Count
    hotkey: AddressText
    coldkey: Annotated[str, _ADDRESS]
    registered: Number
    permit: Annotated[bool, Flag()]
    endpoint: Annotated[str | None, Nullable(Text(None, 64))]
    registrant: Annotated[str | None, Nullable(Address())]


@dataclass(frozen=True)
class CommitEntry(Record):
    """A commitment: raw bytes as hex."""

    hotkey: AddressText
    block: Number
    extrinsic: Count
    data: Annotated[str, Text(r"(?:[0-9a-f]{2})*", 2 * MAX_DATA)]
    kind: Annotated[Kind, Choice(Kind)]
    exact: Annotated[bool, Flag()]
    sealed_block: Annotated[int | None, _MAYBE]
    sealed_extrinsic: Annotated[int | None, _MAYBE]
    reveal_round: Annotated[int | None, _MAYBE]


@dataclass(frozen=True)
class SwapEntry(Record):
    """A hotkey swap."""

    old: AddressText
    new: AddressText
    block: Number
    extrinsic: Count


@dataclass(frozen=True)
class RegisteredEntry(Record):
    """A uid that was given away."""

    uid: Count
    hotkey: AddressText
    block: Number
    extrinsic: Count


@dataclass(frozen=True)
class HappenedEntry(Record):
    """What one block did; blocks that did nothing are left out."""

    block: Number
    commits: Annotated[tuple[CommitEntry, ...], ListOf(Nested(CommitEntry), MAX_ROWS)]
    swaps: Annotated[tuple[SwapEntry, ...], ListOf(Nested(SwapEntry), MAX_ROWS)]
    registered: Annotated[tuple[RegisteredEntry, ...], ListOf(Nested(RegisteredEntry), MAX_ROWS)]


@dataclass(frozen=True)
class Moment(Record):
    """The subnet at a final block, and what happened in blocks ``first`` to ``number``; none when first > number."""

    number: Number
    hash: Hex32
    time: Instant
    head: Number
    first: Number
    neurons: Annotated[tuple[NeuronEntry, ...], ListOf(Nested(NeuronEntry), MAX_ROWS)]
    commits: Annotated[tuple[CommitEntry, ...], ListOf(Nested(CommitEntry), MAX_ROWS)]
    happened: Annotated[tuple[HappenedEntry, ...], ListOf(Nested(HappenedEntry), MAX_ROWS)]


@dataclass(frozen=True)
class SubnetRecording(Record):
    """One subnet at several blocks, oldest first."""

    schema: Annotated[str, Text(SCHEMA, len(SCHEMA))]
    genesis: Genesis
    netuid: Netuid
    moments: Annotated[tuple[Moment, ...], ListOf(Nested(Moment), MAX_MOMENTS, minimum=1)]

    def agree(self) -> None:
        """Moments in order, and what happened within its moment's blocks, each block once."""
        numbers = [moment.number for moment in self.moments]
        if any(a >= b for a, b in itertools.pairwise(numbers)):
            raise MalformedInput("moments are not in order", where="SubnetRecording")
        for moment in self.moments:
            blocks = [entry.block for entry in moment.happened]
            if len(set(blocks)) != len(blocks) or any(not moment.first <= b <= moment.number for b in blocks):
                raise MalformedInput("a block outside its moment, or twice", where=f"moment {moment.number}")


class RecordedSubnet:
    """A ``SubnetReader`` that plays a recording; it stands at its first moment until ``advance`` is called."""

    def __init__(self, recording: SubnetRecording) -> None:
        self.recording = recording
        self._moments = {moment.number: moment for moment in recording.moments}
        self._at = 0

    @classmethod
    def parse(cls, raw: bytes) -> RecordedSubnet:
        """Read a recording's file.

        Raises:
            BadInput: It is none.
        """
        try:
            return cls(SubnetRecording.read(read_canonical(raw, where="subnet recording", max_bytes=MAX_BYTES)))
        except AttestError as error:
            raise BadInput(error.what, where=error.where, got=error.got, expected=error.expected) from None

    @property
    def moment(self) -> Moment:
        """Where it stands."""
        return self.recording.moments[self._at]

    def advance(self) -> bool:
        """Go to the next moment; False at the end."""
        if self._at + 1 >= len(self.recording.moments):
            return False
        self._at += 1
        return True

    def genesis(self) -> bytes:
        """Hash of block 0."""
        return bytes.fromhex(self.recording.genesis.removeprefix("0x"))

    def head(self) -> int:
        """Newest block at this moment."""
        return self.moment.head

    def finalized(self) -> int:
        """The moment's block."""
        return self.moment.number

    def block(self, number: int) -> Block | None:
        """The block of a moment; None for one that did not exist yet."""
        if number > self.moment.number:
            return None
        return _block(self._found(number))

    def state(self, netuid: int, at: int) -> SubnetState:
        """The subnet at a moment."""
        moment = self._of(netuid, at)
        return SubnetState(_block(moment), tuple(map(_neuron, moment.neurons)), tuple(map(_commit, moment.commits)))

    def happened(self, netuid: int, block: int) -> Happenings:
        """What a block between two moments did."""
        for moment in self.recording.moments[: self._at + 1]:
            if netuid == self.recording.netuid and moment.first <= block <= moment.number:
                found = [entry for entry in moment.happened if entry.block == block]
                return _happenings(found[0]) if found else Happenings()
        raise self._silent(netuid, block)

    def _of(self, netuid: int, number: int) -> Moment:
        if netuid != self.recording.netuid:
            raise self._silent(netuid, number)
        return self._found(number)

    def _found(self, number: int) -> Moment:
        if number not in self._moments:
            raise self._silent(self.recording.netuid, number)
        return self._moments[number]

    def _silent(self, netuid: int, number: int) -> ChainPruned:
        return ChainPruned(
            "the recording does not hold this block",
            where=f"netuid {netuid}, block {number}",
            expected=f"netuid {self.recording.netuid}",
            remedy="Ask a node: --network finney.",
        )


class Recorder:
    """A ``SubnetReader`` that keeps what another one answers.

    Args:
        reader: Who is asked.
    """

    def __init__(self, reader: SubnetReader) -> None:
        self._reader = reader
        self._moments: dict[int, Moment] = {}
        self._seen: dict[int, Happenings] = {}
        self._netuid = 0

    def genesis(self) -> bytes:
        """Hash of block 0."""
        return self._reader.genesis()

    def head(self) -> int:
        """Newest block."""
        return self._reader.head()

    def finalized(self) -> int:
        """Newest final block."""
        return self._reader.finalized()

    def block(self, number: int) -> Block | None:
        """A block."""
        return self._reader.block(number)

    def happened(self, netuid: int, block: int) -> Happenings:
        """What a block did; kept."""
        found = self._seen[block] = self._reader.happened(netuid, block)
        return found

    def state(self, netuid: int, at: int) -> SubnetState:
        """The subnet after a block; kept as a moment, with what the blocks before it did."""
        state = self._reader.state(netuid, at)
        self._netuid = netuid
        self._moments[at] = self._moment(state, at)
        return state

    def recording(self) -> SubnetRecording | None:
        """What was kept so far; None when no state was read."""
        if not self._moments:
            return None
        return SubnetRecording(
            schema=SCHEMA,
            genesis="0x" + self._reader.genesis().hex(),
            netuid=self._netuid,
            moments=tuple(self._moments[number] for number in sorted(self._moments)),
        )

    def _moment(self, state: SubnetState, at: int) -> Moment:
        first = at + 1
        while first - 1 in self._seen and first - 1 not in self._moments:
            first -= 1
        return Moment(
            number=at,
            hash=state.block.hash.hex(),
            time=state.block.time.astimezone(UTC).strftime(_TIME),
            head=max(self._reader.head(), at),
            first=first,
            neurons=tuple(map(_neuron_entry, state.neurons)),
            commits=tuple(map(_commit_entry, state.commits)),
            happened=tuple(_entries(self._seen, first, at)),
        )


def encode(recording: SubnetRecording) -> bytes:
    """The bytes of a recording's file."""
    return write(recording.write(), where="subnet recording")


def _entries(seen: dict[int, Happenings], first: int, last: int) -> Iterator[HappenedEntry]:
    for block in range(first, last + 1):
        found = seen[block]
        if found:
            yield HappenedEntry(
                block,
                tuple(map(_commit_entry, found.commits)),
                tuple(SwapEntry(s.old, s.new, s.block, s.extrinsic) for s in found.swaps),
                tuple(RegisteredEntry(r.uid, r.hotkey, r.block, r.extrinsic) for r in found.registered),
            )


def _happenings(entry: HappenedEntry) -> Happenings:
    return Happenings(
        tuple(map(_commit, entry.commits)),
        tuple(Swap(s.old, s.new, s.block, s.extrinsic) for s in entry.swaps),
        tuple(Registered(r.uid, r.hotkey, r.block, r.extrinsic) for r in entry.registered),
    )


def _block(moment: Moment) -> Block:
    time = datetime.strptime(moment.time, _TIME).replace(tzinfo=UTC)
    return Block(moment.number, bytes.fromhex(moment.hash), time)


def _neuron(entry: NeuronEntry) -> Neuron:
    return Neuron(
        entry.uid, entry.hotkey, entry.coldkey, entry.registered, entry.permit, entry.endpoint, entry.registrant
    )


def _neuron_entry(one: Neuron) -> NeuronEntry:
    return NeuronEntry(one.uid, one.hotkey, one.coldkey, one.registered, one.permit, one.endpoint, one.registrant)


def _commit(entry: CommitEntry) -> Commit:
    return Commit(
        entry.hotkey,
        entry.block,
        entry.extrinsic,
        bytes.fromhex(entry.data),
        entry.kind,
        entry.exact,
        entry.sealed_block,
        entry.sealed_extrinsic,
        entry.reveal_round,
    )


def _commit_entry(one: Commit) -> CommitEntry:
    return CommitEntry(
        one.hotkey,
        one.block,
        one.extrinsic,
        one.data.hex(),
        one.kind,
        one.exact,
        one.sealed_block,
        one.sealed_extrinsic,
        one.reveal_round,
    )
