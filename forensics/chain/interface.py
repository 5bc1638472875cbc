"""What the service asks of a chain, and the values it gets back.

Accounts are 32-byte public keys here, never addresses: one account has many spellings. Everything that decides
something is read at a finalized block and named by it, so that the same question can be asked again by somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

DIGEST_SIZE = 32


@dataclass(frozen=True)
class Block:
    """A block: its number, its 32-byte hash, and the time its author gave it (UTC)."""

    number: int
    hash: bytes
    time: datetime


@dataclass(frozen=True)
class Commitment:
    """What an account has committed to on a subnet (Commitments pallet, ``CommitmentOf``).

    Args:
        netuid: The subnet.
        hotkey: The account, 32 bytes.
        block: Number of the block that set it; setting it again overwrites it.
        data: The ``Raw`` fields, joined.
        digests: The ``Sha256`` fields, 32 bytes each.
        sealed_until: Round of drand at which the chain opens it, where it is timelocked.
    """

    netuid: int
    hotkey: bytes
    block: int
    data: bytes = b""
    digests: tuple[bytes, ...] = ()
    sealed_until: int | None = None


class ChainReader(Protocol):
    """A chain that can be asked. Every method raises ``ChainUnavailable`` when it gets no answer."""

    def genesis(self) -> bytes:
        """Hash of block 0: which network this is."""

    def finalized(self) -> int:
        """Number of the newest block that cannot be reorganised away."""

    def block(self, number: int) -> Block | None:
        """The block of this number on the chain as it is now; None when there is none yet."""

    def commitment(self, netuid: int, hotkey: bytes, *, at: int) -> Commitment | None:
        """What the account had committed to when block ``at`` was done."""

    def commitments(self, netuid: int, *, at: int) -> Mapping[bytes, Commitment]:
        """Every commitment of a subnet when block ``at`` was done, by account."""

    def extrinsic(self, commitment: Commitment) -> int | None:
        """Number, in its block, of the extrinsic that set this commitment; None when the block has none such."""


class ChainWriter(ChainReader, Protocol):
    """A chain that can be written to, as one account."""

    @property
    def hotkey(self) -> bytes:
        """The account that signs, 32 bytes."""

    def commit(self, netuid: int, digest: bytes) -> Commitment:
        """Commit to a 32-byte digest and wait until a finalized block has it; what was committed before is overwritten.

        Raises:
            ChainRefused: The account may not commit there, or not now.
        """
