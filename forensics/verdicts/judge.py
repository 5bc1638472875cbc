"""The judge: a policy, a submission and findings in; a verdict out. Pure, and the hard rules are here, not in a file.

An accusation weighs as much as its evidence. Deterministic evidence, or a copy whose false-accusation probability is
small enough, costs what the policy says. Statistical evidence costs something only where two independent families of
it agree, and never everything. The rest is held for a person, watched, or clear. What was not looked at is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from attest.predicates.decision import Outcome
from attest.predicates.verdict import MAX_PARENT_MODELS, MAX_REASONS, ParentModel, PolicyRef, Status
from detectors.evidence import Finding, Kind, digest_of

from ..policy import hard
from ..policy.policy import JUDGE, SEVERITY, Mode, Policy, worst
from .subject import Decision, Subject
from .verdict import NEUTRAL, Verdict, fraction, reason_of, said

NOT_JUDGED: Final = "not_judged"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_COSTLY: Final = (Status.PENALISED, Status.REJECTED)


@dataclass(frozen=True)
class Weighed:
    """A finding and what it leads to.

    Args:
        finding: As given.
        status: What it leads to by itself.
        statistical: It would cost something if another family agreed.
        shadow: It changes nothing.
    """

    finding: Finding
    status: Status
    statistical: bool = False
    shadow: bool = False


def judge(
    policy: Policy, subject: Subject, findings: Sequence[Finding], *, decisions: Sequence[Decision] = ()
) -> Verdict:
    """The verdict on one submission.

    Args:
        policy: In force.
        subject: The submission.
        findings: Everything that detectors said about it, in any order.
        decisions: What people decided, oldest first; those superseded left out.
    """
    findings = [Finding.read(finding.document()) for finding in findings]  # to the digits that are on record
    inputs = inputs_digest(policy, subject, findings, decisions)
    standing = _standing(findings, decisions)
    weighed = corroborated([weigh(policy, finding) for finding in standing])
    counted = [w for w in weighed if not w.shadow]
    status = worst(w.status for w in counted)
    multiplier = _multiplier(policy, counted, status)
    reasons = [reason_of(w.finding) for w in _by_severity(counted)]
    if not subject.seen and status is not Status.REJECTED:
        status, multiplier = Status.UNKNOWN, NEUTRAL
        reasons.insert(0, said(subject.unknown or NOT_JUDGED))
    last = decisions[-1] if decisions else None
    if last is not None:
        status, multiplier = _decided(last, status, multiplier)
        reasons.insert(0, said(f"decision.{last.outcome.value}", evidence=last.digest))
    return Verdict(
        entry=subject.entry,
        hotkey=subject.hotkey,
        revision=subject.revision or None,
        content_root=subject.content_root,
        status=status,
        multiplier=multiplier,
        permanent=last is not None and last.permanent,
        reasons=tuple(reasons[:MAX_REASONS]),
        parents=parents(findings),
        cluster=subject.cluster,
        case=last.case if last is not None else None,
        policy=PolicyRef(name=policy.name, version=policy.version, digest=policy.digest),
        inputs=inputs,
        shadow=tuple(sorted(f"{w.finding.detector} {w.finding.code} {w.status}" for w in weighed if w.shadow)),
    )


def inputs_digest(policy: Policy, subject: Subject, findings: Iterable[Finding], decisions: Iterable[Decision]) -> str:
    """Digest of everything that a verdict is made from; a verdict of the same inputs is the same verdict."""
    return digest_of(
        {
            "judge": JUDGE,
            "policy": policy.digest,
            "subject": subject.document(),
            "findings": sorted({finding.digest for finding in findings}),
            "decisions": [decision.digest for decision in decisions],
        }
    )


def weigh(policy: Policy, finding: Finding) -> Weighed:
    """What one finding leads to by itself."""
    detector = policy.detector(finding.detector)
    status = _asked(policy, finding)
    shadow = detector.mode is Mode.SHADOW
    if status not in _COSTLY:
        return Weighed(finding, status, shadow=shadow)
    if hard.spared(finding):
        return Weighed(finding, Status.WATCH, shadow=shadow)
    known = finding.detector in policy.detectors
    if hard.decisive(finding, float(detector.decisive) if known else hard.FALSE_ACCUSATION):
        allowed = status is Status.PENALISED or finding.family in hard.REJECTS
        return Weighed(finding, status if allowed else Status.HELD, shadow=shadow)
    strong = finding.p_value <= min(float(detector.counts) if known else hard.STATISTICAL, hard.STATISTICAL)
    if status is Status.REJECTED or not strong:
        return Weighed(finding, Status.HELD if strong else Status.WATCH, shadow=shadow)
    return Weighed(finding, Status.HELD, statistical=True, shadow=shadow)


def corroborated(weighed: Sequence[Weighed]) -> list[Weighed]:
    """Statistical findings cost something where enough independent families agree, and are held elsewhere (rule 2)."""
    families = {hard.evidence_family(w.finding.code) for w in weighed if w.statistical and not w.shadow}
    if len(families) < hard.FAMILIES_NEEDED:
        return [Weighed(w.finding, w.status, shadow=w.shadow) for w in weighed]
    return [
        Weighed(w.finding, Status.PENALISED, statistical=True) if w.statistical and not w.shadow else w for w in weighed
    ]


def parents(findings: Iterable[Finding]) -> tuple[ParentModel, ...]:
    """What a submission descends from: measured parents, and the model it is a copy of."""
    found: dict[str, ParentModel] = {}
    for finding in sorted(findings, key=lambda finding: finding.digest):
        measured = finding.measured
        if finding.family == "copy":
            root, weight = str(measured.get("reference", "")), 1.0
            declared = any(fact.code == "declared_parent" for fact in finding.exculpatory)
        elif "weight" in measured and finding.object is not None and finding.object.kind is Kind.MODEL:
            root, weight = finding.object.name, float(measured["weight"])
            declared = int(measured.get("declared", 0)) == 1
        else:
            continue
        relation = str(measured.get("relation", "derived"))
        if not _DIGEST.fullmatch(root):
            continue
        found[root] = ParentModel(digest=root, weight=fraction(weight), relation=relation, declared=declared)
    heaviest = sorted(found.values(), key=lambda parent: (-float(parent.weight), parent.digest))
    return tuple(heaviest[:MAX_PARENT_MODELS])


def _asked(policy: Policy, finding: Finding) -> Status:
    """What the policy asks for; a code it does not know is watched."""
    if finding.family == "operator" and policy.operators.entries == 0:
        return Status.CLEAR
    if finding.family == "copy" and any(fact.code == "public_base" for fact in finding.exculpatory):
        return policy.public_base
    status = policy.status(finding.code) or Status.WATCH
    if finding.family in hard.NEVER_COSTS and status in _COSTLY:
        return Status.HELD
    return status


def _multiplier(policy: Policy, counted: Sequence[Weighed], status: Status) -> str:
    if status not in _COSTLY:
        return NEUTRAL
    costs = []
    for w in counted:
        if w.status is Status.REJECTED:
            costs.append(policy.multipliers["rejected"])
        elif w.status is Status.PENALISED:
            costs.append(_graded(policy) if w.statistical else policy.multipliers["penalised"])
    return min(costs, key=float)


def _graded(policy: Policy) -> str:
    return max(policy.multipliers["graded"], str(hard.LEAST_GRADED), key=float)


def _by_severity(counted: Sequence[Weighed]) -> list[Weighed]:
    """Most severe first, then by code and digest; what is clear is no reason."""
    shown = [w for w in counted if w.status is not Status.CLEAR]
    return sorted(shown, key=lambda w: (-SEVERITY.index(w.status), w.finding.code, w.finding.digest))


def _standing(findings: Iterable[Finding], decisions: Sequence[Decision]) -> list[Finding]:
    """Findings that no decision set aside, each once."""
    once = {finding.digest: finding for finding in findings}
    cleared = [d for d in decisions if d.clears]
    return [
        finding
        for _, finding in sorted(once.items())
        if not any(not d.evidence or finding.evidence in d.evidence for d in cleared)
    ]


def _decided(decision: Decision, status: Status, multiplier: str) -> tuple[Status, str]:
    """What the newest decision makes of the verdict; findings it set aside are gone already."""
    if decision.outcome is not Outcome.AMENDED or decision.multiplier is None:
        return status, multiplier
    return (Status.PENALISED if float(decision.multiplier) < 1 else Status.CLEAR), decision.multiplier
