"""A chain in one file: to rehearse the life of epochs without a network, by turning its time by hand.

    {"genesis": "0x...", "netuid": 120, "hotkey": "5F...", "block": 100, "time": 1692803300,
     "validators": ["5G..."], "anchors": []}

``hotkey`` is the account that anchors, ``time`` POSIX seconds of ``block``, ``validators`` who may fetch.

Anchoring writes into the file, one block further. It proves nothing to anybody else.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from attest import canonical
from attest.errors import AttestError
from attest.keys import ss58
from attest.log.anchor import Anchor
from attest.predicates.fields import AddressText, Block, Count, Genesis, Hex32, Netuid
from attest.record import Address, ListOf, Nested, Record

from ..chain.recorded import SCHEMA, BlockEntry, CommitmentEntry, Recorded, Recording
from ..errors import BadInput
from .errors import ChainSilent
from .machine import Moment

BLOCK_SECONDS: Final = 12
MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Held(Record):
    """A digest and the block that holds it."""

    block: Block
    time: Count
    digest: Hex32


@dataclass(frozen=True)
class Contents(Record):
    """The file."""

    genesis: Genesis
    netuid: Netuid
    hotkey: AddressText
    block: Block
    time: Count
    validators: Annotated[tuple[str, ...], ListOf(Address(), 1024)]
    anchors: Annotated[tuple[Held, ...], ListOf(Nested(Held), 4096)]


class FileChain:
    """A ``SeedChain`` in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def moment(self) -> Moment:
        """Block and time that the file says."""
        held = self._read()
        return Moment(held.block, held.time)

    def block_time(self, block: int) -> int:
        """Time of a block that holds an anchor, or of the newest."""
        held = self._read()
        times = {anchor.block: anchor.time for anchor in held.anchors} | {held.block: held.time}
        if block not in times:
            raise ChainSilent("the file does not have this block", where=str(self._path), got=block)
        return times[block]

    def validators(self, netuid: int, block: int) -> Sequence[str]:
        """Those in the file."""
        return self._read().validators

    def anchor(self, digest: bytes) -> Anchor:
        """Hold a digest in the next block."""
        held = self._read()
        new = Held(held.block + 1, held.time + BLOCK_SECONDS, digest.hex())
        after = replace(held, anchors=(*held.anchors, new), block=new.block, time=new.time)
        self._write(json.dumps(after.write(), indent=1) + "\n")
        return _anchor(after, new)

    def anchors(self, digest: bytes) -> Sequence[Anchor]:
        """Where the file holds a digest."""
        held = self._read()
        return [_anchor(held, anchor) for anchor in held.anchors if anchor.digest == digest.hex()]

    def genesis(self) -> str:
        """Genesis hash in the file."""
        return self._read().genesis

    def _write(self, text: str) -> None:
        temporary = self._path.with_name(f".{self._path.name}-{secrets.token_hex(6)}")
        try:
            with temporary.open("x") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise ChainSilent("cannot write the chain file", where=str(self._path), got=error.strerror or "") from None

    def _read(self) -> Contents:
        try:
            with self._path.open("rb") as file:
                return _contents(file.read(MAX_BYTES + 1), self._path)
        except OSError as error:
            raise ChainSilent("cannot read the chain file", where=str(self._path), got=error.strerror or "") from None


class Rehearsed(Recorded):
    """What a rehearsal's chain answers to who only reads."""


def is_rehearsal(data: bytes) -> bool:
    """Whether a file is meant to be a rehearsal's chain: recordings name their schema."""
    return b'"schema"' not in data


def recorded(data: bytes, path: Path) -> Rehearsed:
    """A rehearsal's chain as something that can be asked; its blocks have no hashes.

    Raises:
        BadInput: It is no chain file.
    """
    held = _contents(data, path)
    blocks = {anchor.block: anchor.time for anchor in held.anchors}
    return Rehearsed(
        Recording(
            schema=SCHEMA,
            genesis=held.genesis,
            finalized=held.block,
            blocks=tuple(BlockEntry(n, "00" * 32, _instant(time)) for n, time in blocks.items()),
            commitments=tuple(
                CommitmentEntry(a.block, held.netuid, held.hotkey, a.block, 0, "", (a.digest,), None)
                for a in {anchor.block: anchor for anchor in held.anchors}.values()
            ),
        )
    )


def _instant(time: int) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        raise BadInput("not a time", where="chain file", got=time) from None


def _contents(data: bytes, path: Path) -> Contents:
    try:
        return Contents.read(canonical.read(data, where=str(path), max_bytes=MAX_BYTES), where="chain file")
    except AttestError as error:
        raise BadInput("not a chain file", where=str(path), got=str(error)) from None


def _anchor(held: Contents, anchor: Held) -> Anchor:
    return Anchor(
        anchor.block,
        0,
        bytes.fromhex(held.genesis[2:]),
        held.netuid,
        ss58.account_id(held.hotkey),
        bytes.fromhex(anchor.digest),
    )
