"""Keeping a log anchored: what is done every few minutes, and what may be said about it to the world.

The log never waits for the chain. Where the chain is away or refuses, leaves and checkpoints go on and the anchor is
late; that is shown, with why. An anchor that a reorganisation removed is noted as vanished and its checkpoint, or a
newer one, is anchored again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attest.log import Checkpoint, LogView
from attest.log.anchor import Anchor, earliest

from ..errors import AnchorInvalid, ChainUnavailable
from .anchors import CommitmentAnchors, State, confirm

Settled = Callable[[Checkpoint, Anchor], object]
"""Told of a checkpoint and the final block that holds it; may be told again after a crash."""


@dataclass(frozen=True)
class Standing:
    """How far a log is anchored.

    Args:
        size: Leaves under the newest signed checkpoint.
        anchored: Leaves under the newest checkpoint that a final block holds.
        anchor: That block.
        vanished: Anchors found gone since the last look.
        problem: Why the newest checkpoint is not anchored; empty when it is, or when there is none yet.
    """

    size: int
    anchored: int
    anchor: Anchor | None
    vanished: tuple[Anchor, ...] = ()
    problem: str = ""

    @property
    def late(self) -> bool:
        """Whether signed leaves wait for their anchor."""
        return self.anchored < self.size


def keep_anchored(log: LogView, anchors: CommitmentAnchors, *, settled: Settled | None = None) -> Standing:
    """Look again at anchors that were not final yet, then anchor the newest checkpoint if no block holds it.

    Nothing is raised for a chain that is away; see ``Standing.problem``. Safe to repeat and to run in two processes:
    the worst that happens is that one checkpoint is anchored twice, and the earlier anchor counts.

    Args:
        log: The log.
        anchors: Where it is anchored.
        settled: Told of every anchor that became final, such as whoever orders claims by them.
    """
    tell = settled or (lambda checkpoint, anchor: None)
    vanished: tuple[Anchor, ...] = ()
    problem = ""
    try:
        vanished = _settle(log, anchors, tell)
        _anchor_newest(log, anchors, tell)
    except ChainUnavailable as error:
        problem = str(error)
    return standing(log, anchors, vanished=vanished, problem=problem)


def standing(
    log: LogView, anchors: CommitmentAnchors, *, vanished: tuple[Anchor, ...] = (), problem: str = ""
) -> Standing:
    """How far the log is anchored, as far as is remembered; asks no chain."""
    latest = log.latest()
    size = 0 if latest is None else latest.checkpoint.size
    final = [(held, anchor) for anchor, state, held in anchors.book.entries() if state == State.FINAL]
    anchored, anchor = max(final, key=lambda found: found[0], default=(0, None))
    if anchored < size and not problem:
        problem = "the newest checkpoint is not in a final block yet"
    return Standing(size, anchored, anchor, vanished, problem)


def _settle(log: LogView, anchors: CommitmentAnchors, tell: Settled) -> tuple[Anchor, ...]:
    """Anchors that were seen and are now final, or gone."""
    vanished = []
    final = anchors.chain.finalized()
    for anchor, state, size in list(anchors.book.entries()):
        if state != State.SEEN or anchor.block > final:
            continue
        try:
            confirm(anchor, anchors.chain)
        except AnchorInvalid:
            vanished.append(anchor)
            anchors.book.add(anchor, State.VANISHED, size=size)
        else:
            if (signed := log.signed_at(size)) is not None:
                tell(signed.checkpoint, anchor)
            anchors.book.add(anchor, State.FINAL, size=size)
    return tuple(vanished)


def _anchor_newest(log: LogView, anchors: CommitmentAnchors, tell: Settled) -> None:
    latest = log.latest()
    if latest is None or latest.checkpoint.size == 0:
        return
    known = {anchor for anchor, _, _ in anchors.book.entries()}
    digest = latest.checkpoint.digest()
    anchor = earliest(latest.checkpoint, anchors.anchors(digest)) or anchors.anchor(digest)
    if anchor not in known:
        final = anchor.block <= anchors.chain.finalized()
        if final:
            tell(latest.checkpoint, anchor)
        anchors.book.add(anchor, State.FINAL if final else State.SEEN, size=latest.checkpoint.size)
