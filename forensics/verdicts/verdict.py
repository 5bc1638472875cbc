"""A verdict, and the one way of writing it: canonical JSON without floats and without a time.

The same inputs give the same bytes, on any machine and at any moment; when it was judged is a column, not a fact. The
parts that validators see are those of the signed snapshot (``attest.predicates.verdict``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from attest import canonical
from attest.predicates.fields import NAME, WORD
from attest.predicates.verdict import Of, ParentModel, PolicyRef, Reason, Status, UidVerdict
from attest.record import Choice, Flag, ListOf, Nested, Nullable, Text
from detectors.evidence import Finding, Kind, decimal

from ..errors import StoreCorrupt

SCHEMA: Final = "forensics/verdict-record/v1"
SERVICE: Final = "service@1"
"""Stands where a reason is no detector's: what could not be looked at, what people decided."""
NEUTRAL: Final = "1.0"
_DIGITS: Final = 9
_REASONS: Final = ListOf(Nested(Reason), 64)
_PARENTS: Final = ListOf(Nested(ParentModel), 64)
_SHADOW: Final = ListOf(NAME, 256)


@dataclass(frozen=True)
class Verdict:
    """What the policy says about one submission.

    Args:
        entry: Public id of the entry.
        hotkey: Whose it is.
        revision: Commit; None when the commitment names none.
        content_root: Its content, once known.
        status: In a word.
        multiplier: For its weight, decimal text in [0, 1].
        permanent: Whether a decision made it last.
        reasons: Most severe first.
        parents: What it descends from.
        cluster: Cluster it belongs to.
        case: Case that is open or was decided.
        policy: The policy that judged.
        inputs: Digest of everything it was made from.
        shadow: Codes that findings of detectors in shadow would have led to, as ``detector code status``.
    """

    entry: str
    hotkey: str
    revision: str | None
    content_root: str | None
    status: Status
    multiplier: str
    permanent: bool
    reasons: tuple[Reason, ...]
    parents: tuple[ParentModel, ...]
    cluster: str | None
    case: str | None
    policy: PolicyRef
    inputs: str
    shadow: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "schema": SCHEMA,
            "entry": self.entry,
            "hotkey": self.hotkey,
            "revision": self.revision,
            "content_root": self.content_root,
            "status": self.status.value,
            "multiplier": self.multiplier,
            "permanent": self.permanent,
            "reasons": [reason.write() for reason in self.reasons],
            "parents": [parent.write() for parent in self.parents],
            "cluster": self.cluster,
            "case": self.case,
            "policy": self.policy.write(),
            "inputs": self.inputs,
            "shadow": list(self.shadow),
        }

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return canonical.write(self.document())

    def at(self, uid: int) -> UidVerdict:
        """As it stands in a snapshot."""
        return UidVerdict(
            uid=uid,
            hotkey=self.hotkey,
            revision=self.revision,
            content_root=self.content_root,
            status=self.status,
            multiplier=self.multiplier,
            permanent=self.permanent,
            reasons=self.reasons,
            parents=self.parents,
            cluster=self.cluster,
            case=self.case,
        )


def read(data: bytes, *, where: str) -> Verdict:
    """A verdict from its bytes.

    Raises:
        AttestError: They are not those of a verdict.
    """
    found = canonical.read_canonical(data, where=where)
    if found.get("schema") != SCHEMA:
        raise StoreCorrupt("not a verdict", where=where, got=str(found.get("schema"))[:60], expected=SCHEMA)
    word, text = Nullable(WORD), Text(None, 128)
    return Verdict(
        entry=text.read(found["entry"], f"{where}.entry"),
        hotkey=text.read(found["hotkey"], f"{where}.hotkey"),
        revision=Nullable(text).read(found["revision"], f"{where}.revision"),
        content_root=word.read(found["content_root"], f"{where}.content_root"),
        status=Status(Choice(Status).read(found["status"], f"{where}.status")),
        multiplier=text.read(found["multiplier"], f"{where}.multiplier"),
        permanent=Flag().read(found["permanent"], f"{where}.permanent"),
        reasons=_REASONS.read(found["reasons"], f"{where}.reasons"),
        parents=_PARENTS.read(found["parents"], f"{where}.parents"),
        cluster=word.read(found["cluster"], f"{where}.cluster"),
        case=word.read(found["case"], f"{where}.case"),
        policy=PolicyRef.read(found["policy"], where=f"{where}.policy"),
        inputs=text.read(found["inputs"], f"{where}.inputs"),
        shadow=_SHADOW.read(found["shadow"], f"{where}.shadow"),
    )


def reason_of(finding: Finding) -> Reason:
    """A finding as validators see it."""
    confidence = finding.measured.get("confidence", 1.0 - finding.p_value)
    return Reason(
        code=finding.code,
        detector=finding.detector,
        of=_of(finding),
        confidence=fraction(float(confidence)),
        false_accusation_probability=decimal(finding.p_value),
        evidence=finding.evidence,
    )


def said(code: str, *, evidence: str | None = None) -> Reason:
    """A reason that accuses nobody: what is not known, or what people decided."""
    return Reason(
        code=code,
        detector=SERVICE,
        of=None,
        confidence=NEUTRAL,
        false_accusation_probability="1",
        evidence=evidence,
    )


def fraction(value: float) -> str:
    """A number in [0, 1] as decimal text without exponent; never rounded up to certainty."""
    if value >= 1:
        return "1.0"
    scaled = math.floor(max(value, 0.0) * 10**_DIGITS + 1e-3)
    digits = f"{min(scaled, 10**_DIGITS - 1):0{_DIGITS}d}".rstrip("0")
    return f"0.{digits or '0'}"


def _of(finding: Finding) -> Of | None:
    """The other submission, where there is one and its revision is known."""
    other = finding.object
    if other is None or other.kind is not Kind.SUBMISSION:
        return None
    hotkey, _, revision = other.name.partition("@")
    return Of(hotkey=hotkey, revision=revision) if len(revision) == 40 else None
