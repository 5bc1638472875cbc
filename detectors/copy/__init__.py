"""Whose work a model is: what verified relations to known models say once it is known who was first.

A relation alone accuses nobody. The same two models compare alike whichever of them came first, so an accusation
needs an order of claims from the chain, other people, and a reference that stands. Everything else that a comparison
found is said too (who descends from whom, who came later, what could not be ordered), for it speaks for the miner.
"""

from __future__ import annotations

from .detector import DETECTOR, findings
from .facts import Candidate, Claim, Declared, Facts, Known, Match, Order, Parent, Place

__all__ = [
    "DETECTOR",
    "Candidate",
    "Claim",
    "Declared",
    "Facts",
    "Known",
    "Match",
    "Order",
    "Parent",
    "Place",
    "findings",
]
