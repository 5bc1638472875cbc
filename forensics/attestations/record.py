"""A statement as the service keeps it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from attest import canonical
from attest import envelope as dsse
from attest.canonical import Json
from attest.envelope import Envelope, Signature
from attest.errors import InvalidSignature, MalformedInput
from attest.keys.interface import Verifier
from attest.log.tiles import MAX_LEAF

LOGGED_SCHEMA: Final = "forensics/logged/v1"


@dataclass(frozen=True)
class Record:
    """A statement that was verified and logged.

    Args:
        id: Row number; no order that matters.
        digest: ``sha256:`` of the payload; the statement's name.
        kind: Predicate type.
        form: Form of an ownership claim, else empty.
        scheme: Of the hotkey that speaks.
        hotkey: Its address.
        genesis: Chain.
        netuid: Subnet.
        content_root: The model, where the statement names one.
        opens: The sealed statement that an opening opens.
        blob: Digest of the envelope's bytes.
        log_index: Number of its leaf.
        submitted_by: Who sent it.
        received_at: When; information only.
    """

    id: int
    digest: str
    kind: str
    form: str
    scheme: str
    hotkey: str
    genesis: str
    netuid: int
    content_root: str | None
    opens: str | None
    blob: str
    log_index: int
    submitted_by: str
    received_at: datetime


def stripped(envelope: Envelope, signers: Sequence[Verifier]) -> Envelope:
    """The envelope with one good signature of each signer and nothing that nobody signed.

    Other signatures, key ids and members are noise that a stranger may add; the log does not carry it.
    """
    kept = (_signature_of(envelope, key) for key in signers)
    return Envelope(envelope.payload, envelope.payload_type, tuple(kept))


def leaf_of(envelope: Envelope) -> bytes:
    """What is logged: the envelope itself, or where it is too long for a leaf, the digests that name it."""
    whole = envelope.to_json()
    if len(whole) <= MAX_LEAF:
        return whole
    named: dict[str, Json] = {
        "schema": LOGGED_SCHEMA,
        "payload": envelope.digest,
        "envelope": "sha256:" + sha256(whole).hexdigest(),
        "bytes": len(whole),
    }
    return canonical.write(named)


def envelope_of(leaf: bytes, statement: bytes | None, *, where: str) -> Envelope:
    """The statement that a leaf is, or names; then it must be handed in.

    Raises:
        MalformedInput: Neither an envelope nor a name of one, or the statement is missing or another one.
    """
    members = canonical.read_object(leaf, where=where)
    if members.get("schema") != LOGGED_SCHEMA:
        return dsse.from_object(members, where=where)
    if statement is None:
        raise MalformedInput(
            "the statement is too long to be in the log itself",
            where=where,
            expected=str(members.get("envelope")),
            remedy="Give its file with --statement.",
        )
    got, expected = "sha256:" + sha256(statement).hexdigest(), members.get("envelope")
    if got != expected:
        raise MalformedInput("another statement than the one logged", where=where, got=got, expected=expected)
    return dsse.read(statement, where=where)


def digest_of_leaf(leaf: bytes) -> str:
    """Digest of the statement that a leaf is, or names.

    Raises:
        MalformedInput: It is neither.
    """
    members = canonical.read_object(leaf, where="leaf")
    if members.get("schema") != LOGGED_SCHEMA:
        return dsse.from_object(members, where="leaf").digest
    return str(members.get("payload"))


def statement_json(envelope: Envelope) -> Any:
    """The statement as JSON for showing."""
    return json.loads(envelope.payload)


def envelope_json(envelope: Envelope) -> dict[str, Any]:
    """The envelope as JSON for showing."""
    return {
        "payload": base64.b64encode(envelope.payload).decode(),
        "payloadType": envelope.payload_type,
        "signatures": [{"keyid": s.keyid, "sig": base64.b64encode(s.sig).decode()} for s in envelope.signatures],
    }


def _signature_of(envelope: Envelope, key: Verifier) -> Signature:
    for signature in envelope.signatures:
        alone = Envelope(envelope.payload, envelope.payload_type, (signature,))
        try:
            dsse.verify(alone, [key])
        except InvalidSignature:
            continue
        return replace(signature, keyid=key.keyid)
    raise InvalidSignature("not signed by this key", where=key.keyid)
