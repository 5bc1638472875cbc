"""Anchoring: a chain says when a checkpoint existed, for a log's own clock proves nothing.

The digest of a checkpoint's body is put where a block commits to it. What is in the tree existed no later than that
block; the earliest anchor of any checkpoint that contains a leaf is the leaf's effective time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .note import Checkpoint


@dataclass(frozen=True, order=True)
class Anchor:
    """A digest in a block; anchors are ordered by (block, extrinsic), as claims are.

    ``hotkey`` is the 32-byte account that put it there. ``block_hash`` names the block beyond doubt, for a number alone
    is whatever block has that number after a reorganisation; empty where a source does not say.
    """

    block: int
    extrinsic: int
    genesis: bytes
    netuid: int
    hotkey: bytes
    digest: bytes
    block_hash: bytes = b""


class Chain(Protocol):
    """Where digests are anchored: a Bittensor commitment, or a fake in tests."""

    def anchor(self, digest: bytes) -> Anchor:
        """Put a 32-byte digest on the chain and wait until a block has it."""

    def anchors(self, digest: bytes) -> Sequence[Anchor]:
        """Every block known to hold the digest."""


def anchor(checkpoint: Checkpoint, chain: Chain) -> Anchor:
    """Anchor a checkpoint; one that is anchored already is not anchored again."""
    return earliest(checkpoint, chain.anchors(checkpoint.digest())) or chain.anchor(checkpoint.digest())


def earliest(checkpoint: Checkpoint, anchors: Iterable[Anchor], *, signer: bytes | None = None) -> Anchor | None:
    """The first block that held this very checkpoint.

    Args:
        checkpoint: The checkpoint whose body was anchored.
        anchors: What the chain holds; anchors of anything else are passed over.
        signer: Public key of the hotkey whose anchors count; anyone's when None, for whoever wrote the digest into a
            block, the checkpoint existed before it.
    """
    digest = checkpoint.digest()
    return min((a for a in anchors if a.digest == digest and signer in (None, a.hotkey)), default=None)
