"""``decision/v1``: what a person decided about a case; append-only, a later one names the one it supersedes.

Subject: ``verdict``, the digest of the statement with the verdict that was looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from attest.errors import MalformedInput
from attest.predicates.fields import (
    FRACTION,
    Account,
    Digest,
    Digests,
    NullableDigest,
    Predicate,
    Prose,
    Revision,
    Word,
)
from attest.record import Choice, Flag, Nested, Nullable


class Outcome(StrEnum):
    """What becomes of the verdict."""

    UPHELD = "upheld"
    AMENDED = "amended"
    OVERTURNED = "overturned"
    DISMISSED = "dismissed"


@dataclass(frozen=True)
class Decision(Predicate):
    """One decision by the reviewer of its context."""

    case: Word
    about: Annotated[Account, Nested(Account)]
    revision: Revision
    verdict: Digest
    outcome: Annotated[Outcome, Choice(Outcome)]
    multiplier: Annotated[str | None, Nullable(FRACTION)]
    permanent: Annotated[bool, Flag()]
    reasons: Prose
    evidence: Digests
    supersedes: NullableDigest

    def agree(self) -> None:
        """An amended verdict says its multiplier, and only that; a decision has reasons."""
        if (self.outcome is Outcome.AMENDED) != (self.multiplier is not None):
            raise MalformedInput("outcome and multiplier disagree", where="Decision.multiplier", got=self.outcome)
        if not self.reasons.strip():
            raise MalformedInput("a decision without reasons", where="Decision.reasons")
