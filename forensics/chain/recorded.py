"""What a chain answered, kept in a file: the same questions can be asked again where there is no network.

A recording proves as much as whoever made it is believed: it says which block to look at, so that anyone who doubts it
can ask a node of their own. What was not recorded is unavailable, never absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from attest.canonical import read_canonical, write
from attest.errors import AttestError, MalformedInput
from attest.keys import ss58
from attest.predicates.fields import AddressText, Count, Genesis, Hex32, Instant, Netuid
from attest.predicates.fields import Block as Number
from attest.record import Integer, ListOf, Nested, Nullable, Record, Text

from ..errors import BadInput, ChainUnavailable
from .interface import Block, ChainReader, Commitment

SCHEMA: Final = "forensics/chain-recording/v1"
MAX_BYTES: Final = 16 << 20
MAX_ENTRIES: Final = 1 << 16
MAX_DATA: Final = 3 * 128  # bytes: the pallet takes three fields, 128 bytes each
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class BlockEntry(Record):
    """A block by number: its hash and time."""

    number: Number
    hash: Hex32
    time: Instant


@dataclass(frozen=True)
class CommitmentEntry(Record):
    """What stood in the state at block ``at``, and where in its own block it had been set."""

    at: Number
    netuid: Netuid
    hotkey: AddressText
    block: Number
    extrinsic: Annotated[int | None, Nullable(Integer())]
    data: Annotated[str, Text(r"(?:[0-9a-f]{2})*", 2 * MAX_DATA)]
    digests: Annotated[tuple[str, ...], ListOf(Text(r"[0-9a-f]{64}", 64), 8)]
    sealed_until: Annotated[int | None, Nullable(Integer())]


@dataclass(frozen=True)
class Recording(Record):
    """Answers of one chain."""

    schema: Annotated[str, Text(SCHEMA, len(SCHEMA))]
    genesis: Genesis
    finalized: Count
    blocks: Annotated[tuple[BlockEntry, ...], ListOf(Nested(BlockEntry), MAX_ENTRIES)]
    commitments: Annotated[tuple[CommitmentEntry, ...], ListOf(Nested(CommitmentEntry), MAX_ENTRIES)]

    def agree(self) -> None:
        """One answer to one question."""
        numbers = [block.number for block in self.blocks]
        places = [(entry.at, entry.netuid, entry.hotkey) for entry in self.commitments]
        if len(set(numbers)) != len(numbers) or len(set(places)) != len(places):
            raise MalformedInput("two answers to one question", where="Recording")


class Recorded:
    """A ``ChainReader`` that answers from a recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._blocks = {entry.number: entry for entry in recording.blocks}
        self._commitments = {(e.at, e.netuid, ss58.account_id(e.hotkey)): e for e in recording.commitments}

    @classmethod
    def parse(cls, raw: bytes) -> Recorded:
        """Read a recording's file.

        Raises:
            BadInput: It is no recording.
        """
        try:
            return cls(Recording.read(read_canonical(raw, where="chain recording", max_bytes=MAX_BYTES)))
        except AttestError as error:
            raise BadInput(error.what, where=error.where, got=error.got, expected=error.expected) from None

    def encode(self) -> bytes:
        """The bytes of the file."""
        return write(self.recording.write(), where="chain recording")

    def genesis(self) -> bytes:
        """Hash of block 0."""
        return bytes.fromhex(self.recording.genesis.removeprefix("0x"))

    def finalized(self) -> int:
        """Newest final block when it was recorded."""
        return self.recording.finalized

    def block(self, number: int) -> Block | None:
        """A recorded block; None for one that did not exist yet."""
        entry = self._blocks.get(number)
        if entry is None:
            if number > self.recording.finalized:
                return None
            raise self._silent(f"block {number}")
        return Block(number, bytes.fromhex(entry.hash), datetime.strptime(entry.time, _TIME).replace(tzinfo=UTC))

    def commitment(self, netuid: int, hotkey: bytes, *, at: int) -> Commitment | None:
        """A recorded commitment."""
        entry = self._commitments.get((at, netuid, hotkey))
        if entry is None:
            raise self._silent(f"the commitment of {ss58.encode(hotkey)} on netuid {netuid} at block {at}")
        return _commitment(entry)

    def commitments(self, netuid: int, *, at: int) -> Mapping[bytes, Commitment]:
        """The recorded commitments of a subnet at a block."""
        found = {key[2]: _commitment(e) for key, e in self._commitments.items() if key[:2] == (at, netuid)}
        if not found:
            raise self._silent(f"commitments on netuid {netuid} at block {at}")
        return found

    def extrinsic(self, commitment: Commitment) -> int | None:
        """Where in its block a recorded commitment was made."""
        for (_, netuid, hotkey), entry in self._commitments.items():
            if (netuid, hotkey, entry.block) == (commitment.netuid, commitment.hotkey, commitment.block):
                return entry.extrinsic
        raise self._silent(f"block {commitment.block}'s extrinsics")

    def _silent(self, what: str) -> ChainUnavailable:
        return ChainUnavailable(
            f"the recording does not hold {what}", where="chain recording", remedy="Ask a node: --network finney."
        )


def record(chain: ChainReader, *, netuid: int, hotkeys: Iterable[bytes], at: Iterable[int]) -> Recorded:
    """Ask a chain for everything needed to check commitments of some accounts at some blocks, and keep the answers.

    Accounts that had committed to nothing are not recorded: a recording shows what was there.
    """
    entries: dict[tuple[int, bytes], CommitmentEntry] = {}
    numbers, accounts = sorted(set(at)), sorted(set(hotkeys))
    for number in numbers:
        for hotkey in accounts:
            commitment = chain.commitment(netuid, hotkey, at=number)
            if commitment is not None:
                entries[number, hotkey] = _entry(commitment, number, chain.extrinsic(commitment))
    wanted = sorted({*numbers, *(entry.block for entry in entries.values())})
    blocks = [chain.block(number) for number in wanted]
    return Recorded(
        Recording(
            schema=SCHEMA,
            genesis="0x" + chain.genesis().hex(),
            finalized=chain.finalized(),
            blocks=tuple(BlockEntry(b.number, b.hash.hex(), b.time.strftime(_TIME)) for b in blocks if b is not None),
            commitments=tuple(entries.values()),
        )
    )


def _entry(commitment: Commitment, at: int, extrinsic: int | None) -> CommitmentEntry:
    return CommitmentEntry(
        at=at,
        netuid=commitment.netuid,
        hotkey=ss58.encode(commitment.hotkey),
        block=commitment.block,
        extrinsic=extrinsic,
        data=commitment.data.hex(),
        digests=tuple(digest.hex() for digest in commitment.digests),
        sealed_until=commitment.sealed_until,
    )


def _commitment(entry: CommitmentEntry) -> Commitment:
    return Commitment(
        netuid=entry.netuid,
        hotkey=ss58.account_id(entry.hotkey),
        block=entry.block,
        data=bytes.fromhex(entry.data),
        digests=tuple(bytes.fromhex(digest) for digest in entry.digests),
        sealed_until=entry.sealed_until,
    )
