"""What the copy detector is told: a candidate, the known models it was compared with, and who claims them since when.

Places come from the chain. An *effective* place is where the content was bound: an anchored attestation of the content
root, else the block whose commitment names the revision (judgement rule 3); whoever assembles the facts works it out.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fingerprint.compare.relation import Relation

from ..errors import MalformedFacts

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Order(StrEnum):
    """How one place stands to another."""

    EARLIER = "earlier"
    TIE = "tie"
    LATER = "later"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Place:
    """A place on the chain.

    Args:
        block: Height.
        extrinsic: Index in the block; None where only the block is known.
    """

    block: int
    extrinsic: int | None = None

    def order(self, other: Place | None) -> Order:
        """How this place stands to another; within a block only known indices can tell."""
        if other is None:
            return Order.UNKNOWN
        if self.block != other.block:
            return Order.EARLIER if self.block < other.block else Order.LATER
        if self.extrinsic is None or other.extrinsic is None or self.extrinsic == other.extrinsic:
            return Order.TIE
        return Order.EARLIER if self.extrinsic < other.extrinsic else Order.LATER

    @property
    def key(self) -> tuple[int, float]:
        """Sort key; an unknown index comes last in its block."""
        return (self.block, math.inf if self.extrinsic is None else self.extrinsic)

    def __str__(self) -> str:
        return f"{self.block}-{'?' if self.extrinsic is None else self.extrinsic}"


@dataclass(frozen=True)
class Claim:
    """Somebody's claim to a model.

    Args:
        hotkey: Who (ss58, prefix 42); None for a public base, which is nobody's.
        revision: Commit of the repository, 40 hex digits, where there is one.
        place: Effective place; None when the chain shows none.
        coldkey: Owner of the hotkey when it claimed, where that is known.
        operator: Whoever is known to stand behind the hotkey (key rotation, declaration), where that is known.
        withdrawn: Whether the claim no longer stands.
    """

    hotkey: str | None
    revision: str | None = None
    place: Place | None = None
    coldkey: str | None = None
    operator: str | None = None
    withdrawn: bool = False

    def same_party(self, other: Claim) -> bool:
        """Whether both are known to be of one party; not knowing is not sameness."""
        pairs = ((self.hotkey, other.hotkey), (self.coldkey, other.coldkey), (self.operator, other.operator))
        return any(mine is not None and mine == theirs for mine, theirs in pairs)


@dataclass(frozen=True)
class Known:
    """A known model.

    Args:
        content_root: Its identity.
        base: Whether it is public, and nobody's.
        claims: Every claim to it, also those that were withdrawn.
    """

    content_root: str
    base: bool
    claims: tuple[Claim, ...] = ()

    def __post_init__(self) -> None:
        _digest(self.content_root, "Known.content_root")

    @property
    def standing(self) -> tuple[Claim, ...]:
        """Claims that stand, earliest first; those without a place last."""
        active = (claim for claim in self.claims if not claim.withdrawn)
        return tuple(sorted(active, key=_claim_key))


@dataclass(frozen=True)
class Parent:
    """A known model that the candidate is made of, with its weight."""

    model: Known
    weight: float

    def __post_init__(self) -> None:
        _within(self.weight, "Parent.weight", -8.0, 8.0)


@dataclass(frozen=True)
class Match:
    """A verified relation to a known model.

    Args:
        model: The known model.
        relation: What the candidate is to it.
        confidence: In the relation, [0, 1].
        false_accusation_probability: Of this comparison alone; 1 unless the relation is of the copy class.
        coverage: Fraction of the candidate's parameters that is explained.
        transforms: What was undone or found.
        parents: What the candidate is made of, by this comparison.
        algorithm: Comparison and calibration by name.
        evidence: Digest of the evidence bundle that ``replay`` recomputes.
    """

    model: Known
    relation: Relation
    confidence: float
    false_accusation_probability: float
    coverage: float
    transforms: tuple[str, ...]
    parents: tuple[Parent, ...]
    algorithm: str
    evidence: str

    def __post_init__(self) -> None:
        _within(self.confidence, "Match.confidence", 0.0, 1.0)
        _within(self.false_accusation_probability, "Match.false_accusation_probability", 0.0, 1.0)
        _digest(self.evidence, "Match.evidence")


@dataclass(frozen=True)
class Declared:
    """A parent that the candidate's owner declared, and what measuring said of that.

    Args:
        parent: Content root.
        judgement: ``confirmed``, ``contradicted`` or ``unverifiable``.
    """

    parent: str
    judgement: str


@dataclass(frozen=True)
class Candidate:
    """The submission in question.

    Args:
        claim: Its claim.
        content_root: Its content.
    """

    claim: Claim
    content_root: str

    def __post_init__(self) -> None:
        _digest(self.content_root, "Candidate.content_root")
        if self.claim.hotkey is None:
            raise MalformedFacts("a submission of nobody", where="Candidate.claim.hotkey", expected="an address")


@dataclass(frozen=True)
class Facts:
    """Everything the detector is told.

    Args:
        candidate: The submission.
        matches: Verified relations, the one that says what the candidate is first (``known.identify`` orders them).
        declared: Declared parents.
        comparisons: How many known models were compared; many tries find more (Bonferroni).
    """

    candidate: Candidate
    matches: tuple[Match, ...]
    declared: tuple[Declared, ...] = ()
    comparisons: int = 1

    def __post_init__(self) -> None:
        if self.comparisons < max(1, len(self.matches)):
            raise MalformedFacts(
                "fewer comparisons than matches",
                where="Facts.comparisons",
                got=self.comparisons,
                expected=f"at least {max(1, len(self.matches))}",
            )

    def corrected(self, match: Match) -> float:
        """False-accusation probability of a match, corrected for the comparisons made."""
        return min(1.0, match.false_accusation_probability * self.comparisons)

    def declares(self, root: str) -> bool:
        """Whether this parent was declared and not contradicted."""
        return any(d.parent == root and d.judgement != "contradicted" for d in self.declared)


def _claim_key(claim: Claim) -> tuple[float, float, str, str]:
    block, extrinsic = claim.place.key if claim.place is not None else (math.inf, math.inf)
    return (block, extrinsic, claim.hotkey or "", claim.revision or "")


def _digest(text: str, where: str) -> None:
    if not _DIGEST.fullmatch(text):
        raise MalformedFacts("not a digest", where=where, got=text, expected="sha256: and 64 hex digits")


def _within(value: float, where: str, least: float, most: float) -> None:
    if not least <= value <= most:
        raise MalformedFacts("out of range", where=where, got=value, expected=f"{least:g} to {most:g}")
