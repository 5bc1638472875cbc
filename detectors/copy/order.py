"""Who was first: the candidate, or whoever claims a reference (judgement rule 3).

Claims of one copy class have one origin. So a miner's own earlier claim to any model that the candidate is a copy of
counts as the candidate's: whoever re-uploads their own model after somebody copied it is not made the copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .facts import Candidate, Claim, Facts, Known, Match, Order, Place


class Standing(StrEnum):
    """What the order of claims says about a match of the copy class."""

    EARLIER = "earlier"
    """Somebody else's work, and first: the candidate is the copy."""
    OWN = "own"
    """First claimed by the candidate's own party."""
    LATER = "later"
    """Somebody else's, and the candidate's party was first."""
    TIE = "tie"
    UNPLACED = "unplaced"
    """The chain shows no order between the two."""
    WITHDRAWN = "withdrawn"
    """No claim to it stands."""


@dataclass(frozen=True)
class Ordered:
    """A match of the copy class with its standing.

    Args:
        match: As given.
        standing: Against the candidate.
        claim: The claim that was weighed: the earliest of others that stands, else the own one, else one withdrawn.
        own: The candidate's party's claim that was weighed.
    """

    match: Match
    standing: Standing
    claim: Claim | None
    own: Claim


def ordered(facts: Facts) -> list[Ordered]:
    """Every match of the copy class with its standing, in the order of the matches."""
    copies = [match for match in facts.matches if match.relation.copy]
    own = origin(facts.candidate, copies)
    return [_weighed(match, facts.candidate, own) for match in copies]


def origin(candidate: Candidate, copies: Iterable[Match]) -> Claim:
    """The earliest claim of the candidate's party to anything in its copy class."""
    claims = [candidate.claim]
    for match in copies:
        claims += [c for c in match.model.standing if c.same_party(candidate.claim) and c.place is not None]
    placed = [claim for claim in claims if claim.place is not None]
    return min(placed, key=lambda claim: _key(claim.place), default=candidate.claim)


def _key(place: Place | None) -> tuple[float, float]:
    return place.key if place is not None else (float("inf"), float("inf"))


def _weighed(match: Match, candidate: Candidate, own: Claim) -> Ordered:
    model = match.model
    others = [c for c in model.standing if not c.same_party(candidate.claim)]
    if model.base:
        return Ordered(match, _against_base(model, own), _base_claim(model), own)
    if not others:
        mine = next((c for c in model.standing if c.same_party(candidate.claim)), None)
        if mine is not None:
            return Ordered(match, Standing.OWN, mine, own)
        return Ordered(match, Standing.WITHDRAWN, model.claims[0] if model.claims else None, own)
    return Ordered(match, _against(others[0], own), others[0], own)


def _against(theirs: Claim, own: Claim) -> Standing:
    if theirs.place is None or own.place is None:
        return Standing.UNPLACED
    order = theirs.place.order(own.place)
    return {Order.EARLIER: Standing.EARLIER, Order.LATER: Standing.LATER}.get(order, Standing.TIE)


def _against_base(model: Known, own: Claim) -> Standing:
    """A public base is older than every submission, unless it was registered with a block that says otherwise."""
    since = _base_claim(model)
    if since is None or since.place is None or own.place is None:
        return Standing.EARLIER
    return Standing.LATER if own.place.order(since.place) is Order.EARLIER else Standing.EARLIER


def _base_claim(model: Known) -> Claim | None:
    return next((claim for claim in model.standing if claim.hotkey is None), None)
