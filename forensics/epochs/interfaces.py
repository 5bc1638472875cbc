"""What the life of epochs needs of the world, passed in: a chain, a beacon, a clock, randomness, a sealing key."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from attest.keys.ed25519 import Ed25519Signer
from attest.log.anchor import Anchor
from attest.seeds.beacon import QUICKNET, Beacon, Network
from attest.seeds.seal import SealKey
from attest.seeds.timelock import QuicknetTimelock, Timelock

from .machine import Moment

Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]


class SeedChain(Protocol):
    """The chain as epochs see it; every method raises ``ChainUnavailable`` when there is no answer.

    ``anchor`` and ``anchors`` are those of ``attest.log.anchor.Chain``.
    """

    def moment(self) -> Moment:
        """The newest final block."""

    def block_time(self, block: int) -> int:
        """POSIX time of a final block."""

    def validators(self, netuid: int, block: int) -> Sequence[str]:
        """Hotkeys (ss58) with a validator's permit on a subnet at a block."""

    def anchor(self, digest: bytes) -> Anchor:
        """Put a digest on the chain and wait until a final block has it."""

    def anchors(self, digest: bytes) -> Sequence[Anchor]:
        """Every final block known to hold the digest."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class World:
    """Everything outside.

    Args:
        signer: The service's key.
        seal_key: Seals secrets at rest.
        beacon: Where signatures come from; verified on arrival.
        timelock: Locks secrets to R_open.
        network: The beacon's constants; anything but quicknet is a rehearsal.
        clock: UTC; written into statements and records, decides nothing.
        entropy: ``entropy(n)`` is n random bytes.
    """

    signer: Ed25519Signer
    seal_key: SealKey
    beacon: Beacon
    timelock: Timelock = field(default_factory=QuicknetTimelock)
    network: Network = QUICKNET
    clock: Clock = _utc_now
    entropy: Entropy = secrets.token_bytes
