"""``seed-commitment/v1``, ``seed-reveal/v1`` and ``epoch-step/v1``: an epoch's hidden seed and its life.

The seed is bound before and shown after; what happens in between is said step by step.

Subject of all: ``seed-commitment``, the value C. The beacon is drand quicknet and nothing else; its chain hash is a
constant, so a statement about another chain is refused when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from attest.errors import MalformedInput
from attest.predicates.fields import WORD, Block, Count, Digest, Hex32, NullableDigest, Predicate
from attest.record import Address, Choice, Integer, ListOf, Nested, Nullable, Record, Text

QUICKNET: Final = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
"""Chain hash of drand quicknet."""
MAX_TIMELOCK: Final = 4096
MAX_ROSTER: Final = 512
"""Most validators of an epoch: a subnet has 256 uids, and the statement must fit into a leaf of the log."""

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


class Step(StrEnum):
    """What can happen to an epoch between commitment and reveal."""

    ANCHORED = "anchored"
    """A block holds the commitment, early enough."""
    MIXING = "mixing"
    """Submissions are closed; the beacon's round is due."""
    OPEN = "open"
    """The beacon is known; the validators of the roster may fetch their items."""
    CLOSED = "closed"
    """The round that opens the secret for everyone is out."""
    VOID = "void"
    """The epoch counts for nothing, and why."""


@dataclass(frozen=True)
class EpochStep(Predicate):
    """A step of an epoch, seen at a final block; for ``anchored`` the block that holds the commitment.

    ``evidence`` is, for ``anchored``, SHA-256 of the checkpoint's body; for ``open``, the digest of all items that are
    handed out (``attest.seeds.plan``), which binds them before anyone is told; for ``closed``, the digest of the
    record of who fetched what when.
    """

    epoch: Count
    commitment: Hex32
    statement: Digest
    step: Annotated[Step, Choice(Step)]
    block: Block
    block_time: Count
    evidence: NullableDigest
    reason: Annotated[str | None, Nullable(WORD)]
    roster: Annotated[tuple[str, ...], ListOf(Address(), MAX_ROSTER, unique=True)]

    def agree(self) -> None:
        """The commitment is a parent; a reason belongs to ``void`` and a roster to ``open``."""
        if self.statement not in self.context.parents:
            raise MalformedInput("the commitment's statement is no parent", where="EpochStep.statement")
        if (self.reason is not None) != (self.step is Step.VOID):
            raise MalformedInput("a reason belongs to void", where="EpochStep.reason", got=self.reason)
        if self.roster and self.step is not Step.OPEN:
            raise MalformedInput("a roster belongs to open", where="EpochStep.roster", got=len(self.roster))
