"""What is seen of a subnet: its state at a final block, and what happened in each block on the way there.

State alone is not enough: an account has one commitment at a time and the chain keeps the last ten reveals, so what was
overwritten between two looks can only be had from the blocks between them. Addresses are SS58 at prefix 42 throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from .interface import Block

KEPT_REVEALS: Final = 10
"""Reveals of one account that the chain keeps (Commitments pallet, ``MAX_REVEALS``)."""
BEFORE_EXTRINSICS: Final = 0
"""Where reveals stand in their block: the chain makes them before its first extrinsic, all at once."""


class Kind(StrEnum):
    """How a commitment came to be readable."""

    PLAIN = "plain"
    """Set in the open by an extrinsic."""
    REVEALED = "revealed"
    """Opened by the chain when the drand round of its timelock was out."""
    SEALED = "sealed"
    """Under a timelock still; nobody can read it."""


@dataclass(frozen=True)
class Neuron:
    """A hotkey on a uid.

    Args:
        uid: Its place; recycled, so never an identity.
        hotkey: Who competes.
        coldkey: Who owns the hotkey; empty where the chain names nobody.
        registered: Block at which this uid was last registered; a hotkey swap does not change it.
        permit: Whether it may validate.
        endpoint: ``ip:port`` that it serves, if any.
        registrant: The hotkey that registered this uid at that block; None where it is not known.
    """

    uid: int
    hotkey: str
    coldkey: str
    registered: int
    permit: bool = False
    endpoint: str | None = None
    registrant: str | None = None


@dataclass(frozen=True)
class Commit:
    """A commitment, whatever it says.

    Args:
        hotkey: Who committed.
        block: Block whose state first showed it: of the extrinsic, or of the reveal.
        extrinsic: Its place in that block; reveals come before every extrinsic, and two of them in one block tie.
        data: What was committed to: raw bytes, or ``sha256:`` and hex digits for a digest; empty while sealed.
        kind: How it became readable.
        exact: Whether ``extrinsic`` is the chain's word; False where the node no longer shows it.
        sealed_block: Block at which what was revealed now had been committed to under its timelock, where known.
        sealed_extrinsic: The place in that block.
        reveal_round: Round of drand that opens it, while it is sealed.
    """

    hotkey: str
    block: int
    extrinsic: int
    data: bytes
    kind: Kind = Kind.PLAIN
    exact: bool = True
    sealed_block: int | None = None
    sealed_extrinsic: int | None = None
    reveal_round: int | None = None

    @property
    def bound(self) -> tuple[int, int]:
        """Block and extrinsic at which the content could no longer be changed: of the sealed commitment, if any."""
        if self.sealed_block is None or self.sealed_extrinsic is None:
            return self.block, self.extrinsic
        return self.sealed_block, self.sealed_extrinsic


@dataclass(frozen=True)
class Swap:
    """A hotkey that another took the place of.

    Args:
        old: The hotkey before.
        new: The hotkey after.
        block: Block of the swap; the block of the look that found it where ``exact`` is False.
        extrinsic: Its place there.
        exact: Whether the swap itself was seen, or only that it must have happened.
    """

    old: str
    new: str
    block: int
    extrinsic: int
    exact: bool = True


@dataclass(frozen=True)
class Registered:
    """A uid that was given to a hotkey."""

    uid: int
    hotkey: str
    block: int
    extrinsic: int


@dataclass(frozen=True)
class SubnetState:
    """A subnet after a block: who is on it, and what everyone's commitments say then.

    Args:
        block: The block.
        neurons: By uid.
        commits: Standing commitments, and the reveals that the chain still keeps.
    """

    block: Block
    neurons: tuple[Neuron, ...]
    commits: tuple[Commit, ...]

    def reveals(self, hotkey: str) -> list[Commit]:
        """Reveals of one hotkey, oldest first."""
        return [commit for commit in self.commits if commit.hotkey == hotkey and commit.kind is Kind.REVEALED]


@dataclass(frozen=True)
class Happenings:
    """What one block did to a subnet.

    Args:
        commits: Commitments that it set or revealed.
        swaps: Hotkeys that were swapped, on this subnet or on all.
        registered: Uids that were given away.
    """

    commits: tuple[Commit, ...] = ()
    swaps: tuple[Swap, ...] = ()
    registered: tuple[Registered, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.commits or self.swaps or self.registered)


@dataclass(frozen=True)
class Transfer:
    """Balance that moved from one account to another in a block; ``amount`` in rao."""

    source: str
    target: str
    amount: int
    block: int


class SubnetReader(Protocol):
    """A chain whose subnets can be read. Every method raises ``ChainUnavailable`` when it gets no answer."""

    def genesis(self) -> bytes:
        """Hash of block 0: which network this is."""

    def head(self) -> int:
        """Number of the newest block, which may still be reorganised away."""

    def finalized(self) -> int:
        """Number of the newest final block."""

    def block(self, number: int) -> Block | None:
        """The block of this number; None when there is none yet."""

    def state(self, netuid: int, at: int) -> SubnetState:
        """The subnet when block ``at`` was done.

        Raises:
            ChainPruned: The node no longer has the state of that block.
        """

    def happened(self, netuid: int, block: int) -> Happenings:
        """What a block did to the subnet.

        Raises:
            ChainPruned: The node no longer has that block.
        """


class TransferReader(Protocol):
    """A chain whose transfers can be read, block by block."""

    def finalized(self) -> int:
        """Number of the newest final block."""

    def transfers(self, block: int) -> tuple[Transfer, ...]:
        """Transfers between accounts in a block, in their order."""
