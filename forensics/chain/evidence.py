"""One file that says when a checkpoint existed: the signed checkpoint, its place on a chain, and what the chain said.

Checked offline it proves that the log signed the checkpoint and that the recording has its digest in that block.
Whether the recording is the chain's own can only be asked of the chain: ``verify(..., chain=Subtensor(...))``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from attest.canonical import read_canonical, write
from attest.errors import AttestError
from attest.keys import ss58
from attest.log import Checkpoint, NoteKey, open_checkpoint
from attest.log.anchor import Anchor
from attest.log.note import MAX_NOTE
from attest.predicates.fields import AddressText, Count, Genesis, Hex32, Netuid
from attest.predicates.fields import Block as Number
from attest.record import Nested, Record, Text

from ..errors import BadInput, ChainUnavailable
from .anchors import confirm
from .interface import Block, ChainReader
from .recorded import MAX_BYTES, Recorded, Recording, record

SCHEMA: Final = "forensics/anchor/v1"


@dataclass(frozen=True)
class Place(Record):
    """Where a digest stands on a chain."""

    genesis: Genesis
    netuid: Netuid
    hotkey: AddressText
    block: Number
    block_hash: Hex32
    extrinsic: Count


@dataclass(frozen=True)
class AnchorFile(Record):
    """A checkpoint, its place, and the chain's answers about it."""

    schema: Annotated[str, Text(SCHEMA, len(SCHEMA))]
    checkpoint: Annotated[str, Text(None, MAX_NOTE, 1)]
    anchor: Annotated[Place, Nested(Place)]
    recording: Annotated[Recording, Nested(Recording)]


@dataclass(frozen=True)
class Anchored:
    """What a verified file proves: this checkpoint existed when this block was made."""

    checkpoint: Checkpoint
    anchor: Anchor
    block: Block


def collect(note: bytes, anchor: Anchor, chain: ChainReader) -> bytes:
    """The file for a signed checkpoint and its anchor, which is confirmed on the way.

    Raises:
        AnchorInvalid: The chain does not have it there.
        ChainUnavailable: The chain could not be asked.
    """
    confirm(anchor, chain)
    recorded = record(chain, netuid=anchor.netuid, hotkeys=[anchor.hotkey], at=[anchor.block])
    place = Place(
        genesis="0x" + anchor.genesis.hex(),
        netuid=anchor.netuid,
        hotkey=ss58.encode(anchor.hotkey),
        block=anchor.block,
        block_hash=anchor.block_hash.hex(),
        extrinsic=anchor.extrinsic,
    )
    whole = AnchorFile(schema=SCHEMA, checkpoint=note.decode(), anchor=place, recording=recorded.recording)
    return write(whole.write(), where="anchor file")


def verify(raw: bytes, *, log: NoteKey, chain: ChainReader | None = None) -> Anchored:
    """Check an anchor file with the log's key alone, or against a chain as well.

    Args:
        raw: The file.
        log: Key of the log.
        chain: Asked too when given; without it the file's own recording is all that is asked.

    Raises:
        BadInput: No such file, or its checkpoint is not signed by the log.
        AnchorInvalid: The recording or the chain does not have the digest there.
        ChainUnavailable: The chain could not be asked.
    """
    try:
        whole = AnchorFile.read(read_canonical(raw, where="anchor file", max_bytes=MAX_BYTES))
        checkpoint = open_checkpoint(whole.checkpoint.encode(), log=log).checkpoint
    except AttestError as error:
        raise BadInput(error.what, where=error.where, got=error.got, expected=error.expected) from None
    anchor = _anchor(whole.anchor, checkpoint)
    recorded = Recorded(whole.recording)
    for source in (recorded, chain):
        if source is not None:
            confirm(anchor, source)
    block = recorded.block(anchor.block)
    if block is None:
        raise ChainUnavailable("the recording does not hold the block", where=f"block {anchor.block}")
    return Anchored(checkpoint, anchor, block)


def _anchor(place: Place, checkpoint: Checkpoint) -> Anchor:
    return Anchor(
        block=place.block,
        extrinsic=place.extrinsic,
        genesis=bytes.fromhex(place.genesis.removeprefix("0x")),
        netuid=place.netuid,
        hotkey=ss58.account_id(place.hotkey),
        digest=checkpoint.digest(),
        block_hash=bytes.fromhex(place.block_hash),
    )
