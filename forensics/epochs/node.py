"""Epochs on a real chain: moments and validators from a node, anchors in commitments (``forensics.chain``)."""

from __future__ import annotations

from collections.abc import Sequence

from attest.log.anchor import Anchor

from ..chain.anchors import CommitmentAnchors, State
from ..chain.interface import Block
from ..chain.subtensor import Subtensor
from .errors import ChainSilent
from .machine import Moment


class NodeChain:
    """A ``SeedChain`` over a node.

    Args:
        node: The connection; it needs a signer to anchor, and none to look.
        anchors: Where the log's checkpoints are anchored.
    """

    def __init__(self, node: Subtensor, anchors: CommitmentAnchors) -> None:
        self._node, self._anchors = node, anchors

    def moment(self) -> Moment:
        """The newest final block."""
        block = self._block(self._node.finalized())
        return Moment(block.number, int(block.time.timestamp()))

    def block_time(self, block: int) -> int:
        """Time of a block."""
        return int(self._block(block).time.timestamp())

    def validators(self, netuid: int, block: int) -> Sequence[str]:
        """Hotkeys with a validator's permit."""
        return self._node.validators(netuid, at=block)

    def anchor(self, digest: bytes) -> Anchor:
        """Commit to the digest, wait for finality, and remember where it stands."""
        made = self._anchors.anchor(digest)
        self._anchors.book.add(made, State.FINAL, size=0)
        return made

    def anchors(self, digest: bytes) -> Sequence[Anchor]:
        """Final anchors of a digest: what is remembered, and what stands on the chain now."""
        final = self._node.finalized()
        return [anchor for anchor in self._anchors.anchors(digest) if anchor.block <= final]

    def _block(self, number: int) -> Block:
        found = self._node.block(number)
        if found is None:
            raise ChainSilent("the node does not have a final block", where=f"block {number}")
        return found
