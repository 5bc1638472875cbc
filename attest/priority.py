"""Who was first: effective time of a claim, and the order between claims of the same content (judgement rule 3).

Time comes from the chain alone. A claim is bound where its content was bound: by an attestation of the content root
that is in an anchored log checkpoint, or by a commitment that names the 40-hex revision with that content. The
earliest binding counts, so that attesting later never costs a miner the place an earlier commitment gave them; what a
signer says about time is shown and never used (back-dating). An equal place is a tie: nobody is first, nobody is
accused, a person looks. A sealed claim binds from its own anchor, once it has been opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from attest.errors import ContextMismatch, MalformedInput
from attest.keys.hotkey import Hotkey

_REVISION: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place on one chain; earlier is smaller."""

    block: int
    extrinsic_index: int

    def __post_init__(self) -> None:
        if self.block < 0 or self.extrinsic_index < 0:
            raise MalformedInput("no such place on a chain", where="position", got=self)

    def __str__(self) -> str:
        return f"{self.block}-{self.extrinsic_index}"


class By(StrEnum):
    """What bound the content."""

    ATTESTATION = "attestation"
    COMMITMENT = "commitment"


@dataclass(frozen=True, slots=True)
class Binding:
    """One proof from the chain that a hotkey had bound this content by then.

    Args:
        position: Block and extrinsic of the anchor or the commitment.
        by: Which of the two.
        evidence: Digest of the anchored checkpoint, or the 40-hex revision that was re-hashed to this content.
    """

    position: Position
    by: By
    evidence: str

    def __post_init__(self) -> None:
        if self.by is By.COMMITMENT and not _REVISION.fullmatch(self.evidence):
            raise MalformedInput(
                "a commitment binds only by a commit", where="binding", got=self.evidence, expected="40 hex digits"
            )


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody's claim to one content.

    Args:
        digest: Statement digest or submission id; names the claim and breaks no tie.
        hotkey: Who claims.
        genesis: Chain on which the bindings stand.
        root: Content root.
        bindings: In any order; empty while nothing is anchored.
    """

    digest: str
    hotkey: Hotkey
    genesis: str
    root: str
    bindings: tuple[Binding, ...]


class Standing(StrEnum):
    """What the order says about one claim."""

    FIRST = "first"
    SAME_OWNER = "same-owner"
    LATER = "later"
    TIE = "tie"
    UNANCHORED = "unanchored"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A claim with its place.

    Args:
        claim: As given.
        position: Effective position; None when nothing binds it.
        standing: ``LATER`` is flagged, ``TIE`` is a case, ``UNANCHORED`` says nothing either way.
        behind: Digests of the claims it comes after or ties with, by other owners.
    """

    claim: Claim
    position: Position | None
    standing: Standing
    behind: tuple[str, ...]


def effective(claim: Claim) -> Position | None:
    """The earliest position at which the chain shows the content bound; None when it shows nothing."""
    return min((binding.position for binding in claim.bindings), default=None)


def rank(claims: Sequence[Claim], *, owner: Callable[[Hotkey], Hotkey] = lambda hotkey: hotkey) -> tuple[Ranked, ...]:
    """Order claims of the same content on one chain.

    Args:
        claims: Claims of one content root; by any number of hotkeys.
        owner: Maps a hotkey to the one its owner started with (``KeyHistory.origin``), so that a rotated key does not
            copy itself.

    Returns:
        The claims by effective position (unanchored last), equal positions by digest, which only fixes the order shown.

    Raises:
        ContextMismatch: Claims from different chains have no common order.
        MalformedInput: Claims of different contents.
    """
    if len({claim.genesis for claim in claims}) > 1:
        raise ContextMismatch("claims from two chains have no order", where="priority")
    if len({claim.root for claim in claims}) > 1:
        raise MalformedInput("claims of different contents have no order", where="priority")
    placed = [(claim, effective(claim)) for claim in claims]
    earliest = min((position for _, position in placed if position is not None), default=None)
    leaders = [claim for claim, position in placed if position is not None and position == earliest]
    return tuple(
        _standing(claim, position, leaders, earliest, owner) for claim, position in sorted(placed, key=_by_position)
    )


def _standing(
    claim: Claim,
    position: Position | None,
    leaders: Sequence[Claim],
    earliest: Position | None,
    owner: Callable[[Hotkey], Hotkey],
) -> Ranked:
    if position is None:
        return Ranked(claim, None, Standing.UNANCHORED, ())
    mine = owner(claim.hotkey)
    rivals = tuple(sorted(leader.digest for leader in leaders if owner(leader.hotkey) != mine))
    if position == earliest:
        return Ranked(claim, position, Standing.TIE if rivals else Standing.FIRST, rivals)
    if len(rivals) < len(leaders):
        return Ranked(claim, position, Standing.SAME_OWNER, rivals)
    return Ranked(claim, position, Standing.LATER, rivals)


def _by_position(placed: tuple[Claim, Position | None]) -> tuple[bool, Position, str]:
    claim, position = placed
    return position is None, position or Position(0, 0), claim.digest
