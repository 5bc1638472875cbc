"""The public file of an epoch: everything a stranger needs to check it, and nothing that is secret at the time.

Statements come inside their log receipts (``attest.log.proof``), so that each is one text with envelope, inclusion
proof and signed checkpoint. Before the reveal the file has no secret and no seed; after it everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from attest import canonical
from attest.canonical import MAX_SAFE_INTEGER
from attest.errors import MalformedInput
from attest.keys import ss58
from attest.log.anchor import Anchor
from attest.log.errors import LogError
from attest.log.note import NoteKey
from attest.log.proof import MAX_PATH, MAX_RECEIPT
from attest.predicates.fields import HEX_32, AddressText, Block, Count, Genesis, Hex32, Netuid
from attest.record import Integer, ListOf, Nested, Nullable, Record, Text

from .plan import Plan

SCHEMA: Final = "integrity/epoch/v1"
MAX_BYTES: Final = 4 << 20
MAX_STAMPS: Final = 64
MAX_STEPS: Final = 16
_RECEIPT: Final = Text(None, min(MAX_RECEIPT, 1 << 19), 1)
_SIGNATURE: Final = Text(r"[0-9a-f]{96}", 96)
_PATH: Final = ListOf(HEX_32, MAX_PATH)


@dataclass(frozen=True)
class Stamp(Record):
    """An anchor as the operator states it: which block holds a checkpoint's digest, and that block's time.

    ``block_time`` is POSIX seconds. Whoever doubts it asks the chain for that block.
    """

    block: Block
    block_hash: Annotated[str, Text(r"(?:[0-9a-f]{64})?", 64)]
    block_time: Annotated[int, Integer(0, MAX_SAFE_INTEGER)]
    extrinsic: Count
    genesis: Genesis
    netuid: Netuid
    hotkey: AddressText
    digest: Hex32

    @classmethod
    def of(cls, anchor: Anchor, block_time: int) -> Stamp:
        """An anchor with the time of its block."""
        return cls(
            block=anchor.block,
            block_hash=getattr(anchor, "block_hash", b"").hex(),
            block_time=block_time,
            extrinsic=anchor.extrinsic,
            genesis="0x" + anchor.genesis.hex(),
            netuid=anchor.netuid,
            hotkey=ss58.encode(anchor.hotkey),
            digest=anchor.digest.hex(),
        )


@dataclass(frozen=True)
class EpochFile(Record):
    """What is public of one epoch.

    Args:
        log: Public key of the log and service, as ``name+id+base64``. A convenience: whoever verifies should know it
            from elsewhere.
        plan: What is drawn; its digest is the pool in the context.
        commitment: Receipt of the commitment's envelope.
        batch_path: Proof that the epoch is in the batch its statement names; null when it is in none.
        stamps: Anchors of the checkpoints in the receipts.
        steps: Receipts of the steps in between, in order.
        mix_signature: The beacon's signature of R_mix, once it is out.
        open_signature: The beacon's signature of R_open, once it is out.
        reveal: Receipt of the reveal's envelope.
        consistency: Proof that the reveal's checkpoint continues the commitment's.
    """

    schema: Annotated[str, Text(SCHEMA, len(SCHEMA))]
    log: Annotated[str, Text(None, 512, 1)]
    plan: Annotated[Plan, Nested(Plan)]
    commitment: Annotated[str, _RECEIPT]
    batch_path: Annotated[tuple[str, ...] | None, Nullable(_PATH)]
    stamps: Annotated[tuple[Stamp, ...], ListOf(Nested(Stamp), MAX_STAMPS)]
    steps: Annotated[tuple[str, ...], ListOf(_RECEIPT, MAX_STEPS)]
    mix_signature: Annotated[str | None, Nullable(_SIGNATURE)]
    open_signature: Annotated[str | None, Nullable(_SIGNATURE)]
    reveal: Annotated[str | None, Nullable(_RECEIPT)]
    consistency: Annotated[tuple[str, ...] | None, Nullable(_PATH)]

    @classmethod
    def parse(cls, data: bytes) -> EpochFile:
        """Read an epoch file; proves nothing yet.

        Raises:
            MalformedInput: It is no epoch file.
        """
        return cls.read(canonical.read(data, where="epoch file", max_bytes=MAX_BYTES), where="epoch file")

    def encode(self) -> bytes:
        """The bytes of the file: canonical JSON."""
        return canonical.write(self.write(), where="epoch file")

    @property
    def log_key(self) -> NoteKey:
        """The key the file names; to be compared with what one knows."""
        try:
            return NoteKey.parse(self.log)
        except LogError as error:
            raise MalformedInput(error.what, where="epoch file: log", got=self.log) from None
