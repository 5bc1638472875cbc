"""Receipts and checkpoints: that something is in a log, and which log that is."""

from __future__ import annotations

from attest import envelope as dsse
from attest.envelope import Envelope
from attest.log.note import SignedCheckpoint, open_checkpoint, parse_checkpoint, parse_note
from attest.log.proof import parse_receipt, verify_receipt

from ..attestations.record import envelope_of
from ..trust import Trusted
from .kinds import Kind, kind_of
from .report import Report
from .statements import Question, verify_statement


def verify_logged(data: bytes, question: Question, *, statement: bytes | None, where: str) -> Report:
    """Check a receipt with nothing but trusted keys: inclusion, the checkpoint's signature, and the statement logged.

    Args:
        data: The receipt.
        question: What to hold the statement against.
        statement: The statement's file, when it was too long to be in the log itself.
        where: Name of the file, for messages.

    Raises:
        AttestError: Any part of it is not good.
    """
    receipt = parse_receipt(data)
    origin = parse_checkpoint(parse_note(receipt.checkpoint).text).origin
    trusted = question.trusted
    proven = verify_receipt(data, log=trusted.log(origin), witnesses=trusted.witnesses)
    report = Report(Kind.RECEIPT)
    _about_checkpoint(proven.signed, report)
    tree = proven.signed.checkpoint
    report.facts |= {"log_index": proven.index}
    report.proven.append(f"the statement is entry {proven.index} of that log")
    envelope = envelope_of(proven.leaf, statement, where=where)
    report.take(verify_statement(envelope, question, where=where))
    report.not_proven.append(
        f"since when: the checkpoint of {tree.size} entries must be anchored in a block, by its SHA-256 "
        f"{tree.digest().hex()}"
    )
    return report


def statement_of(data: bytes, trusted: Trusted, *, where: str) -> Envelope:
    """The statement in a file: itself, or the one that a receipt of a trusted log proves.

    Raises:
        AttestError: Neither, or the receipt is not good.
    """
    if kind_of(data, where=where) is not Kind.RECEIPT:
        return dsse.read(data, where=where)
    origin = parse_checkpoint(parse_note(parse_receipt(data).checkpoint).text).origin
    proven = verify_receipt(data, log=trusted.log(origin), witnesses=trusted.witnesses)
    return envelope_of(proven.leaf, None, where=where)


def verify_checkpoint(data: bytes, trusted: Trusted) -> Report:
    """Check a checkpoint by itself.

    Raises:
        AttestError: Malformed, or not signed by a trusted log.
    """
    report = Report(Kind.CHECKPOINT)
    signed = opened(data, trusted)
    _about_checkpoint(signed, report)
    report.not_proven.append("that nothing was taken out: compare it with an older one (`forensics log consistency`)")
    return report


def opened(data: bytes, trusted: Trusted) -> SignedCheckpoint:
    """A checkpoint signed by a trusted log.

    Raises:
        AttestError: Malformed, or not signed by a trusted log.
    """
    key = trusted.log(parse_checkpoint(parse_note(data).text).origin)
    return open_checkpoint(data, log=key, witnesses=trusted.witnesses)


def _about_checkpoint(signed: SignedCheckpoint, report: Report) -> None:
    tree = signed.checkpoint
    report.facts |= {
        "log": tree.origin,
        "size": tree.size,
        "root": tree.root.hex(),
        "anchor": tree.digest().hex(),
        "witnesses": [{"name": w.name, "time": w.time} for w in signed.witnesses],
    }
    report.proven.append(f"the log {tree.origin!r} had {tree.size} entries and the root {tree.root.hex()}")
    if signed.witnesses:
        names = ", ".join(witness.name for witness in signed.witnesses)
        report.proven.append(f"seen by {names}, who cosigned it")
    else:
        report.not_proven.append("that others saw the same log: no trusted witness cosigned this checkpoint")
