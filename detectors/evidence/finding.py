"""A Finding: one detector's word on one party, with what it rests on and what speaks against it.

A finding accuses nobody by itself. A policy weighs findings (at least two independent families before anything
statistical costs a miner something), so each carries what weighing needs: how much likelier the facts are if it is
true than under the null (as a log10, for ratios beyond floats), the chance of such facts under a *named* null,
the digest of the evidence, and the exculpatory part, which travels with it wherever it goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..errors import MalformedFacts
from .document import Document, decimal, digest_of

_DETECTOR = re.compile(r"[a-z][a-z0-9_-]*@[1-9][0-9]*")
_CODE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MAX_LOG10 = 1000.0
"""Largest |log10 likelihood ratio| on record; beyond it nothing changes, and infinities cannot be signed."""


class Kind(StrEnum):
    """What a party of a finding is. Identities outlive uids, so a uid is no kind."""

    HOTKEY = "hotkey"
    VALIDATOR = "validator"
    SUBMISSION = "submission"
    MODEL = "model"
    CLUSTER = "cluster"
    EPOCH = "epoch"
    ENDPOINT = "endpoint"
    FILE = "file"


@dataclass(frozen=True, order=True)
class Party:
    """Whom or what a finding speaks of.

    Args:
        kind: What it is.
        name: Its identity: an ss58 address, a content root, an epoch number.
    """

    kind: Kind
    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise MalformedFacts("a party without a name", where="Party.name", expected=f"the {self.kind}'s identity")

    def document(self) -> Document:
        """As JSON."""
        return {"kind": self.kind.value, "name": self.name}


@dataclass(frozen=True)
class Exculpation:
    """A fact that speaks for the subject, or limits what the finding can mean.

    Args:
        code: One word a program can use, e.g. ``one_environment``.
        text: The same for a person.
    """

    code: str
    text: str

    def document(self) -> Document:
        """As JSON."""
        return {"code": self.code, "text": self.text}


@dataclass(frozen=True)
class Finding:
    """One detector's word on one subject.

    Args:
        detector: Name and version, e.g. ``overfit@1``; a changed detector is a new version.
        code: What was found, e.g. ``overfit.exposed``; the family is the part before the first dot.
        subject: Whom it is about.
        object: What it relates the subject to (the copied model, the other hotkey, the leaking validator), if any.
        log10_likelihood_ratio: log10 of P(facts | found) / P(facts | null), within ``MAX_LOG10`` of 0.
        p_value: Chance under the null of facts at least as extreme, in (0, 1].
        null: The null by name and parameters, e.g. ``permutation/exposure:randomised,strata=epoch+environment``.
        evidence: Digest of the evidence document.
        measured: What was measured, as numbers (effect, interval, sample sizes) and short words.
        exculpatory: What speaks for the subject; empty only where the detector looked and found nothing.
    """

    detector: str
    code: str
    subject: Party
    object: Party | None
    log10_likelihood_ratio: float
    p_value: float
    null: str
    evidence: str
    measured: Mapping[str, float | int | str]
    exculpatory: tuple[Exculpation, ...] = ()

    def __post_init__(self) -> None:
        _require(bool(_DETECTOR.fullmatch(self.detector)), "detector", self.detector, "name@version")
        _require(bool(_CODE.fullmatch(self.code)), "code", self.code, "family.word in lower case")
        _require(0 < self.p_value <= 1, "p_value", self.p_value, "in (0, 1]")
        _require(abs(self.log10_likelihood_ratio) <= MAX_LOG10, "log10_likelihood_ratio", self.log10_likelihood_ratio)
        _require(bool(self.null), "null", self.null, "the null that was used")
        _require(bool(_DIGEST.fullmatch(self.evidence)), "evidence", self.evidence, "sha256: and 64 hex digits")

    @property
    def family(self) -> str:
        """Family of evidence: findings of one family never corroborate each other."""
        return self.code.partition(".")[0]

    def document(self) -> Document:
        """As JSON without floats: what is stored, signed and shown."""
        return {
            "detector": self.detector,
            "code": self.code,
            "subject": self.subject.document(),
            "object": self.object.document() if self.object else None,
            "log10_likelihood_ratio": decimal(self.log10_likelihood_ratio),
            "p_value": decimal(self.p_value),
            "null": self.null,
            "evidence": self.evidence,
            "measured": {name: _spelled(value) for name, value in sorted(self.measured.items())},
            "exculpatory": [fact.document() for fact in self.exculpatory],
        }

    @classmethod
    def read(cls, document: Document) -> Finding:
        """The finding that a document was written from, with the digest of that document.

        Fractions among what was measured stay the decimal text they were written as.

        Raises:
            MalformedFacts: It is not the document of a finding.
        """
        try:
            found = cls(
                detector=document["detector"],
                code=document["code"],
                subject=_party(document["subject"]),
                object=None if document["object"] is None else _party(document["object"]),
                log10_likelihood_ratio=float(document["log10_likelihood_ratio"]),
                p_value=float(document["p_value"]),
                null=document["null"],
                evidence=document["evidence"],
                measured=dict(document["measured"]),
                exculpatory=tuple(Exculpation(fact["code"], fact["text"]) for fact in document["exculpatory"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedFacts("not the document of a finding", where="finding", got=repr(error)[:120]) from None
        if found.document() != document:
            raise MalformedFacts("not the document that a finding writes", where="finding", got=found.code)
        return found

    @property
    def digest(self) -> str:
        """Identity of the finding: the same facts give the same digest on every machine."""
        return digest_of(self.document())


def log10_capped(natural_log: float) -> float:
    """A natural-log likelihood ratio as a log10 that can go on record."""
    if math.isnan(natural_log):
        raise MalformedFacts("not a likelihood ratio", where="log10_likelihood_ratio", got=natural_log)
    return max(-MAX_LOG10, min(MAX_LOG10, natural_log / math.log(10)))


def _party(document: Document) -> Party:
    return Party(Kind(document["kind"]), document["name"])


def _spelled(value: Any) -> Any:
    return decimal(value) if isinstance(value, float) else value


def _require(holds: bool, field: str, got: object, expected: str = "a sane value") -> None:
    if not holds:
        raise MalformedFacts("not a finding", where=f"Finding.{field}", got=got, expected=expected)
