"""``verdict/v1``: a snapshot of all verdicts of a subnet at a block (shape fixed in the architecture).

Subject: ``subnet``, the digest of genesis hash and netuid (``attest.statement.subnet_digest``), so that snapshots of a
subnet are found by whom they are about. Fractions are decimal text and the rest integers, so that every client reads
the same numbers. Importing this must stay cheap: validators read snapshots with it on machines without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from attest.errors import MalformedInput
from attest.predicates.fields import (
    REVISION,
    AddressText,
    Block,
    Count,
    Decimal,
    Digest,
    Fraction,
    Genesis,
    Instant,
    Netuid,
    NullableDigest,
    Predicate,
    Word,
    same,
)
from attest.predicates.fields import WORD as WORD_KIND
from attest.record import Choice, Flag, Integer, ListOf, Nested, Nullable, Record, Text

SNAPSHOT_SCHEMA: Final = "forensics/snapshot/v1"
MAX_VERDICTS: Final = 4096
MAX_REASONS: Final = 64
MAX_PARENT_MODELS: Final = 64


class Status(StrEnum):
    """What the policy says about one submission."""

    CLEAR = "clear"
    WATCH = "watch"
    HELD = "held"
    PENALISED = "penalised"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PolicyRef(Record):
    """The policy that judged."""

    name: Word
    version: Count
    digest: Digest


@dataclass(frozen=True)
class LogRef(Record):
    """The transparency log's head when the snapshot was made."""

    origin: Annotated[str, Text(r"[!-~]+", 256, 1)]
    size: Count
    root: Annotated[str, Text(r"[A-Za-z0-9+/]{43}=", 44)]


@dataclass(frozen=True)
class Of(Record):
    """The other submission a reason speaks of."""

    hotkey: AddressText
    revision: Annotated[str, REVISION]


@dataclass(frozen=True)
class Reason(Record):
    """Why: a detector's finding, with the strength of its evidence."""

    code: Word
    detector: Word
    of: Annotated[Of | None, Nullable(Nested(Of))]
    confidence: Fraction
    false_accusation_probability: Decimal
    evidence: NullableDigest


@dataclass(frozen=True)
class ParentModel(Record):
    """A model this one descends from, measured or declared."""

    digest: Digest
    weight: Fraction
    relation: Word
    declared: Annotated[bool, Flag()]


@dataclass(frozen=True)
class UidVerdict(Record):
    """The verdict on one hotkey's submission; ``uid`` is where it sits at this block and identifies nobody."""

    uid: Annotated[int, Integer(0, 0xFFFF)]
    hotkey: AddressText
    revision: Annotated[str | None, Nullable(REVISION)]
    content_root: NullableDigest
    status: Annotated[Status, Choice(Status)]
    multiplier: Fraction
    permanent: Annotated[bool, Flag()]
    reasons: Annotated[tuple[Reason, ...], ListOf(Nested(Reason), MAX_REASONS)]
    parents: Annotated[tuple[ParentModel, ...], ListOf(Nested(ParentModel), MAX_PARENT_MODELS)]
    cluster: Annotated[str | None, Nullable(WORD_KIND)]
    case: Annotated[str | None, Nullable(WORD_KIND)]

    def agree(self) -> None:
        """Unknown is not guilty: what was not judged takes nothing from anybody (judgement rule 5)."""
        if self.status is Status.UNKNOWN and float(self.multiplier) != 1:
            raise MalformedInput(
                "unknown, and yet penalised", where="UidVerdict.multiplier", got=self.multiplier, expected="1.0"
            )


@dataclass(frozen=True)
class Verdicts(Predicate):
    """All verdicts of a subnet at a block."""

    schema: Annotated[str, Text(r"forensics/snapshot/v1", 21)]
    network: Word
    genesis: Genesis
    netuid: Netuid
    block: Block
    sequence: Count
    issued_at: Instant
    expires_at: Instant
    policy: Annotated[PolicyRef, Nested(PolicyRef)]
    log: Annotated[LogRef, Nested(LogRef)]
    verdicts: Annotated[tuple[UidVerdict, ...], ListOf(Nested(UidVerdict), MAX_VERDICTS)]

    def agree(self) -> None:
        """Network and subnet are the context's; nobody is judged twice; it expires after it was issued."""
        same("genesis", self.genesis, self.context.genesis, where="Verdicts.genesis")
        same("netuid", self.netuid, self.context.netuid, where="Verdicts.netuid")
        if self.expires_at <= self.issued_at:
            raise MalformedInput("expires before it was issued", where="Verdicts.expires_at", got=self.expires_at)
        for name, seen in (("uid", [v.uid for v in self.verdicts]), ("hotkey", [v.hotkey for v in self.verdicts])):
            if len(set(seen)) != len(seen):
                raise MalformedInput(f"one {name} has two verdicts", where="Verdicts.verdicts")
