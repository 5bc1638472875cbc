"""A policy in force: what a code means, which detectors count, what a status costs, how long a snapshot lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from attest.predicates.verdict import Status as Status
from detectors.evidence import digest_of

SCHEMA: Final = "forensics/policy/v1"
JUDGE: Final = "judge@1"
"""The rules of the judge by version: in every digest of inputs, so that a changed judge judges again."""
SEVERITY: Final = (Status.CLEAR, Status.WATCH, Status.HELD, Status.PENALISED, Status.REJECTED)


class Mode(StrEnum):
    """Whether a detector's findings count."""

    ON = "on"
    SHADOW = "shadow"


class Keeps(StrEnum):
    """Which entry of one operator counts, where a competition allows one."""

    EARLIEST = "earliest"
    NEWEST = "newest"


@dataclass(frozen=True)
class Detector:
    """How findings of one detector at one version count.

    Args:
        mode: Findings in shadow are stored and change nothing (rule 7).
        decisive: False-accusation probability at which its copy findings may cost everything.
        counts: p-value at which its findings count as evidence.
    """

    mode: Mode
    decisive: str
    counts: str

    def document(self) -> dict[str, str]:
        """As JSON."""
        return {"mode": self.mode.value, "decisive": self.decisive, "counts": self.counts}


SHADOW: Final = Detector(Mode.SHADOW, decisive="0", counts="0")
"""A detector that the policy does not name: new ones start in shadow."""


@dataclass(frozen=True)
class Operators:
    """What one operator (coldkey) may have.

    Args:
        entries: Entries that count; 0 for any number.
        keeps: Which ones.
    """

    entries: int
    keeps: Keeps


@dataclass(frozen=True)
class Snapshots:
    """How long signed snapshots hold.

    Args:
        expires: Seconds from issue to expiry.
        renew: Seconds before expiry at which an unchanged one is issued anew.
    """

    expires: int
    renew: int


@dataclass(frozen=True)
class Policy:
    """A policy; made by ``policy.parse``, which refuses what the hard rules forbid.

    Args:
        name: For people.
        version: Counts up with every change of a published policy.
        detectors: By ``name@version``.
        findings: Status by code or by family (``copy.*``); the longer match wins.
        public_base: Status of a copy of a public base.
        multipliers: ``penalised``, ``graded`` and ``rejected``, as decimal text.
        operators: Entries of one operator.
        snapshots: Expiry.
    """

    name: str
    version: int
    detectors: Mapping[str, Detector]
    findings: Mapping[str, Status]
    public_base: Status
    multipliers: Mapping[str, str]
    operators: Operators
    snapshots: Snapshots

    def detector(self, name: str) -> Detector:
        """How a detector counts; one that is not named is in shadow."""
        return self.detectors.get(name, SHADOW)

    def status(self, code: str) -> Status | None:
        """What a code alone would lead to; None when the policy does not know it."""
        return self.findings.get(code) or self.findings.get(code.partition(".")[0] + ".*")

    def document(self) -> dict[str, Any]:
        """As JSON: everything that changes an answer, and nothing else."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "version": self.version,
            "detectors": {name: d.document() for name, d in sorted(self.detectors.items())},
            "findings": {code: status.value for code, status in sorted(self.findings.items())},
            "public_base": self.public_base.value,
            "multipliers": dict(sorted(self.multipliers.items())),
            "operators": {"entries": self.operators.entries, "keeps": self.operators.keeps.value},
            "snapshots": {"expires": self.snapshots.expires, "renew": self.snapshots.renew},
        }

    @property
    def digest(self) -> str:
        """Digest of the document: comments, order and spacing of the file do not change it."""
        return digest_of(self.document())


def worst(statuses: Any) -> Status:
    """The most severe of some statuses; clear when there is none."""
    return max(statuses, key=SEVERITY.index, default=Status.CLEAR)
