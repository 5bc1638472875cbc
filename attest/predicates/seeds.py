"""``seed-commitment/v1`` and ``seed-reveal/v1``: an epoch's hidden seed, bound before and shown after.

Subject of both: ``seed-commitment``, the value C. The beacon is drand quicknet and nothing else; its chain hash is a
constant, so a statement about another chain is refused when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from attest.errors import MalformedInput
from attest.predicates.fields import Count, Digest, Hex32, NullableDigest, Predicate
from attest.record import Integer, Nested, Nullable, Record, Text

QUICKNET: Final = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
"""Chain hash of drand quicknet."""
MAX_TIMELOCK: Final = 4096

Round = Annotated[int, Integer(1)]


@dataclass(frozen=True)
class Batch(Record):
    """Epochs committed ahead under one root, so that a commitment cannot be chosen late."""

    root: Digest
    index: Count
    size: Annotated[int, Integer(1)]


@dataclass(frozen=True)
class SeedCommitment(Predicate):
    """C of an epoch, with everything that goes into it but the secret."""

    epoch: Count
    commitment: Hex32
    pool: Digest
    generator: Digest
    chain: Hex32
    mix_round: Round
    open_round: Round
    timelock: Annotated[str, Text(r"(?:[0-9a-f]{2})+", MAX_TIMELOCK, 2)]
    batch: Annotated[Batch | None, Nullable(Nested(Batch))]

    def agree(self) -> None:
        """The right beacon, opened after it was mixed, and a place inside its batch."""
        if self.chain != QUICKNET:
            raise MalformedInput("another beacon", where="SeedCommitment.chain", got=self.chain, expected=QUICKNET)
        if self.open_round <= self.mix_round:
            raise MalformedInput("opens before it is mixed", where="SeedCommitment.open_round", got=self.open_round)
        if self.batch is not None and self.batch.index >= self.batch.size:
            raise MalformedInput("outside its batch", where="SeedCommitment.batch", got=self.batch.index)


@dataclass(frozen=True)
class SeedReveal(Predicate):
    """The secret of an epoch, the beacon's signature, and the seed both give."""

    epoch: Count
    commitment: Hex32
    statement: Digest
    secret: Hex32
    mix_signature: Annotated[str, Text(r"[0-9a-f]{96}", 96)]
    seed: Hex32
    log_receipt: NullableDigest

    def agree(self) -> None:
        """What is revealed was committed to in a parent statement."""
        if self.statement not in self.context.parents:
            raise MalformedInput(
                "the commitment's statement is no parent", where="SeedReveal.statement", got=self.statement
            )
