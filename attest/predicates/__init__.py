"""The predicate types of our statements, one file per family."""

from __future__ import annotations

from attest.predicates.decision import Decision
from attest.predicates.fields import Account, Context, Predicate
from attest.predicates.lineage import Lineage
from attest.predicates.ownership import Ownership
from attest.predicates.rotation import KeyRotation
from attest.predicates.seeds import EpochStep, SeedCommitment, SeedReveal
from attest.predicates.verdict import Verdicts

__all__ = [
    "Account",
    "Context",
    "Decision",
    "EpochStep",
    "KeyRotation",
    "Lineage",
    "Ownership",
    "Predicate",
    "SeedCommitment",
    "SeedReveal",
    "Verdicts",
]
