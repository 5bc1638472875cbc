"""Statements: who said what, where; and whether it is about the model at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attest import claims, lineage
from attest.checking import AUTHORITATIVE, Checked, Expected, check
from attest.claims import Roots
from attest.envelope import Envelope
from attest.errors import ContentMismatch, MalformedInput
from attest.lineage import Tensors
from attest.predicates import (
    Decision,
    EpochStep,
    KeyRotation,
    Lineage,
    Ownership,
    Predicate,
    SeedCommitment,
    SeedReveal,
    Verdicts,
)
from attest.predicates.ownership import Form
from attest.statement import CONTENT_ROOT, OMS_ROOT, parse

from ..place import Clock, now
from ..trust import Trusted
from .kinds import Kind
from .report import Report
from .snapshots import about_snapshot

if TYPE_CHECKING:
    from ..claims.measure import Measured  # its import takes two seconds, which a receipt alone must not cost

_TIME: Final = "the time in the statement is its signer's word; time that counts comes from an anchored receipt"


@dataclass(frozen=True)
class Question:
    """What to hold an artefact against.

    Args:
        expected: This place; None members accept any.
        trusted: Keys that count.
        model: Measured from the model at hand.
        parent: Tensors of the declared parent at hand.
        seal: The sealed claim that this one opens.
        now: The time, for what expires.
    """

    expected: Expected
    trusted: Trusted
    model: Measured | None = None
    parent: Tensors | None = None
    seal: Envelope | None = None
    now: Clock = now

    @property
    def roots(self) -> Roots | None:
        """Roots of the model at hand."""
        return None if self.model is None else self.model.roots


def verify_statement(envelope: Envelope, question: Question, *, where: str) -> Report:
    """Check a statement of any kind of ours.

    Raises:
        AttestError: It is refused, or is about another model.
    """
    kind = type(parse(envelope.payload, where=where).predicate)
    checked = _check(envelope, kind, question, where)
    context = checked.context
    report = Report(Kind.STATEMENT, {"statement": json.loads(envelope.payload), "digest": checked.digest})
    report.facts["signed_by"] = [key.keyid for key in checked.signers]
    signers = " and ".join(key.keyid for key in checked.signers)
    report.proven.append(
        f"{signers} signed this {_name(kind)} statement, for netuid {context.netuid}, "
        f"competition {context.competition!r}, on the chain with genesis {context.genesis}"
    )
    _about(checked, question, report, where)
    report.not_proven.append(_TIME)
    if question.expected.genesis is None or question.expected.netuid is None:
        report.not_proven.append("that it was meant for your subnet: compare genesis and netuid, or give them")
    return report


def _check(envelope: Envelope, kind: type[Predicate], question: Question, where: str) -> Checked[Predicate]:
    if kind is Ownership:
        return _plain(claims.check_ownership(envelope, expected=question.expected, roots=question.roots, where=where))
    if kind is Lineage:
        return _plain(lineage.check_lineage(envelope, expected=question.expected, where=where))
    trusted = question.trusted.authorities if issubclass(kind, AUTHORITATIVE) else ()
    return check(envelope, kind, expected=question.expected, trusted=trusted, where=where)


def _about(checked: Checked[Predicate], question: Question, report: Report, where: str) -> None:
    said = checked.predicate
    if question.seal is not None and not (isinstance(said, Ownership) and said.form is Form.OPENING):
        raise MalformedInput("it opens nothing, so no seal goes with it", where=where, expected="an opening")
    if isinstance(said, Ownership):
        _about_ownership(Checked(checked.statement, said, checked.digest, checked.signers), question, report)
    elif isinstance(said, Lineage):
        _about_lineage(checked, said, question, report, where)
    elif isinstance(said, Verdicts):
        about_snapshot(said, report, now=question.now())
    elif isinstance(said, KeyRotation):
        report.proven.append(f"{said.predecessor.key} and {said.successor.key} agreed to the hand-over")
        report.not_proven.append("from when it counts: from its anchor on, or from the swap on chain that it cites")
    else:
        report.proven.append(_SAYS.get(type(said), "a trusted key says so"))
        report.not_proven.append("that it is right: recompute it from the evidence it names")


_SAYS: Final[dict[type[Predicate], str]] = {
    SeedCommitment: "a trusted service committed to this seed",
    SeedReveal: "a trusted service revealed this seed",
    EpochStep: "a trusted service took this step of an epoch",
    Decision: "a trusted reviewer took this decision",
}


def _about_ownership(checked: Checked[Ownership], question: Question, report: Report) -> None:
    said = checked.predicate
    if said.form is Form.SEALED:
        report.not_proven.append("which model it is about: it is sealed until its hotkey opens it")
        return
    root = checked.statement.digest_of(CONTENT_ROOT)
    report.proven.append(f"it claims the model with content root {root}")
    if said.form is Form.OPENING and said.opening is not None:
        _about_seal(checked, said.opening.statement, question, report)
    if question.model is None:
        report.not_proven.append("that a model you hold is this one: give it with --model")
    else:
        _about_files(_plain(checked), question.model, report)
    report.not_proven.append("that nobody claimed the same model earlier: ask the service, and its log")


def _about_seal(checked: Checked[Ownership], opens: str, question: Question, report: Report) -> None:
    """Whether root, nonce and hotkey give what was sealed."""
    if question.seal is None:
        report.not_proven.append(f"that it opens {opens}: give that statement, or its receipt, with --seal")
        return
    sealed = claims.check_ownership(question.seal, expected=question.expected, where="seal")
    claims.check_opening(checked, sealed)
    report.proven.append(f"it opens {opens}: the same hotkey sealed this very model there")


def _about_files(checked: Checked[Predicate], model: Measured, report: Report) -> None:
    """The roots were compared; say which of them the claim names."""
    report.proven.append("the model at hand is the one claimed: every tensor, name and dtype")
    if checked.statement.digest_of(OMS_ROOT) is None:
        report.not_proven.append("files besides the weights (config, tokenizer): the claim names no root of files")
    elif model.oms_root is None:
        raise ContentMismatch(
            "the claim is about a folder of files", where="model", got="a single file", remedy="Give the folder."
        )
    else:
        report.proven.append("every byte of every file of the folder at hand is the one claimed")
        report.not_proven.append("names of files besides the weights: the model-signing bundle signs them")


def _about_lineage(checked: Checked[Predicate], said: Lineage, question: Question, report: Report, where: str) -> None:
    child = checked.statement.digest_of(CONTENT_ROOT) or ""
    changes, parent = said.changes, said.parent.content_root
    report.proven.append(
        f"it claims {child} was made from {parent}; {len(changes.listed)} of {changes.total} changed tensors are "
        "listed, each proven to be in the models it says"
    )
    report.not_proven.append("that the child was learned from the parent: a service measures that on the weights")
    if question.model is not None and question.model.tensors.root != child:
        raise ContentMismatch(
            "the child at hand is not the one claimed", where=where, got=question.model.tensors.root, expected=child
        )
    if question.model is not None and question.parent is not None:
        lineage.check_complete(said, child_root=child, parent=question.parent, child=question.model.tensors)
        report.proven.append("parent and child at hand are those claimed, and nothing else changed between them")
    else:
        report.not_proven.append("that nothing else changed: give both models with --model and --parent")


def _name(kind: type[Predicate]) -> str:
    """``KeyRotation`` as words."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in kind.__name__).strip()


def _plain(checked: Checked[Ownership] | Checked[Lineage]) -> Checked[Predicate]:
    return Checked(checked.statement, checked.predicate, checked.digest, checked.signers)
