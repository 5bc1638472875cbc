"""Anchors in commitments: a checkpoint's digest is what an account of the operator commits to on a subnet.

The chain keeps only the newest commitment of an account, so the log keeps where each older one stood (an
``AnchorBook``), and whoever doubts an entry reads the state of that old block (``confirm``). Give the log a hotkey of
its own: anything else it commits to overwrites the anchor for those who look at the present only.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol

from attest.keys import ss58
from attest.log.anchor import Anchor

from ..errors import AnchorInvalid, ChainUnavailable
from .interface import ChainReader, ChainWriter, Commitment


class State(StrEnum):
    """What is known of an anchor; the newest word counts and every older one is kept."""

    SEEN = "seen"
    """A block holds it, and that block may still be reorganised away."""
    FINAL = "final"
    """A finalized block holds it."""
    VANISHED = "vanished"
    """A reorganisation removed it: it proves nothing any more."""


class AnchorBook(Protocol):
    """Where anchors are remembered; append-only. ``forensics.log_store.anchors`` is one."""

    def add(self, anchor: Anchor, state: State, *, size: int) -> None:
        """Note what is known of an anchor of a checkpoint of ``size`` leaves."""

    def entries(self) -> Iterable[tuple[Anchor, State, int]]:
        """Every anchor once, in order of its first entry, with its newest state and the size of its checkpoint."""


class CommitmentAnchors:
    """``attest.log.anchor.Chain`` over commitments.

    Args:
        chain: Where digests are committed.
        netuid: The subnet on which the log's hotkey is registered.
        book: What is remembered of earlier anchors.
    """

    def __init__(self, chain: ChainWriter, *, netuid: int, book: AnchorBook) -> None:
        self.chain, self.netuid, self.book = chain, netuid, book

    def anchor(self, digest: bytes) -> Anchor:
        """Commit to the digest and wait for finality.

        Raises:
            ChainUnavailable: No node answers, or the chain refuses (``ChainRefused``).
        """
        return self._place(self.chain.commit(self.netuid, digest), digest)

    def anchors(self, digest: bytes) -> Sequence[Anchor]:
        """Anchors of this digest that have not vanished: remembered ones, and the one that stands on the chain now.

        The latter matters after a crash between committing and remembering: nothing is committed twice.
        """
        found = [a for a, state, _ in self.book.entries() if a.digest == digest and state != State.VANISHED]
        standing = self.chain.commitment(self.netuid, self.chain.hotkey, at=self.chain.finalized())
        if standing is not None and digest in standing.digests:
            placed = self._place(standing, digest)
            found += [] if placed in found else [placed]
        return found

    def _place(self, commitment: Commitment, digest: bytes) -> Anchor:
        block, extrinsic = self.chain.block(commitment.block), self.chain.extrinsic(commitment)
        if block is None or extrinsic is None:
            raise ChainUnavailable(
                "the node does not show where the commitment stands", where=f"block {commitment.block}"
            )
        genesis = self.chain.genesis()
        return Anchor(commitment.block, extrinsic, genesis, self.netuid, commitment.hotkey, digest, block.hash)


def confirm(anchor: Anchor, chain: ChainReader) -> None:
    """Ask a chain, or a recording of one, whether an anchor is where it is said to be.

    Raises:
        AnchorInvalid: It is of another network, not final yet, in a block that is no longer there, or not in its block.
        ChainUnavailable: The chain could not be asked.
    """
    where = f"anchor at block {anchor.block}"
    _same(chain.genesis(), anchor.genesis, "anchor of another network", where)
    if anchor.block > (final := chain.finalized()):
        raise AnchorInvalid("the block is not final", where=where, got=f"final up to {final}", remedy="Ask later.")
    block = chain.block(anchor.block)
    if block is None:
        raise AnchorInvalid("there is no such block", where=where)
    if anchor.block_hash:
        _same(block.hash, anchor.block_hash, "another block has this number now", where)
    commitment = chain.commitment(anchor.netuid, anchor.hotkey, at=anchor.block)
    if commitment is None or commitment.block != anchor.block:
        raise AnchorInvalid(
            "the account committed to nothing in this block",
            where=f"{where}, netuid {anchor.netuid}, hotkey {ss58.encode(anchor.hotkey)}",
            got="no commitment" if commitment is None else f"one of block {commitment.block}",
        )
    if anchor.digest not in commitment.digests:
        got = ", ".join(digest.hex() for digest in commitment.digests) or "no digest"
        raise AnchorInvalid("the block holds another digest", where=where, got=got, expected=anchor.digest.hex())
    extrinsic = chain.extrinsic(commitment)
    if extrinsic != anchor.extrinsic:
        raise AnchorInvalid(
            "another extrinsic of the block has it", where=where, got=extrinsic, expected=anchor.extrinsic
        )


def _same(got: bytes, expected: bytes, what: str, where: str) -> None:
    if not hmac.compare_digest(got, expected):
        raise AnchorInvalid(what, where=where, got=got.hex(), expected=expected.hex())
