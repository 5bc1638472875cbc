"""DSSE v1 envelopes (github.com/secure-systems-lab/dsse, protocol.md and envelope.md).

What is signed is the pre-authentication encoding of payload type and payload *bytes*; those bytes, and no re-encoding
of them, are what is parsed after the signature was checked. Key ids are hints that nobody signed: they order the
attempts and decide nothing. Thresholds count distinct keys, not signatures. Unknown members of the envelope are
ignored, as the specification asks, and never kept.

A signature entry may declare ``"wrapping":"substrate-bytes"``: then a browser wallet signed the encoding between
``<Bytes>`` and ``</Bytes>``. No undeclared form is tried. A declaration cannot be forged into another meaning,
because an encoding starts with ``DSSEv1`` and never with ``<``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from attest import canonical
from attest.canonical import Json
from attest.errors import InputTooLarge, InvalidSignature, MalformedInput, ThresholdNotMet, UnsupportedInput
from attest.keys.interface import HOTKEY_SCHEMES, Signer, Verifier

IN_TOTO: Final = "application/vnd.in-toto+json"
"""The only payload type this package signs or accepts."""
MAX_SIGNATURES: Final = 32
MAX_PAYLOAD_BYTES: Final = 12 * 1024 * 1024
"""Fits, in base64, into ``canonical.MAX_BYTES``."""
_MAX_KEYID: Final = 256
_MAX_SIGNATURE_BYTES: Final = 1024
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}|[A-Za-z0-9_-]*={0,2}")
_URL_SAFE: Final = str.maketrans("-_", "+/")


class Wrapping(StrEnum):
    """What a wallet put around the bytes before signing them."""

    NONE = ""
    SUBSTRATE_BYTES = "substrate-bytes"


@dataclass(frozen=True, slots=True)
class Signature:
    """One entry of ``signatures``.

    Args:
        sig: Raw signature bytes, in the encoding of the scheme.
        keyid: Unauthenticated hint.
        wrapping: Declared wrapping.
    """

    sig: bytes
    keyid: str = ""
    wrapping: Wrapping = Wrapping.NONE


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload with its type and whoever claims to have signed it."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]

    @property
    def digest(self) -> str:
        """``sha256:`` of the payload: the statement's name, equal for every signature over the same statement."""
        return "sha256:" + sha256(self.payload).hexdigest()

    def to_json(self) -> bytes:
        """The envelope as canonical JSON with standard base64."""
        return canonical.write(
            {
                "payload": base64.b64encode(self.payload).decode(),
                "payloadType": self.payload_type,
                "signatures": [_entry(signature) for signature in self.signatures],
            }
        )


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verified envelope proves: these keys signed these bytes."""

    payload: bytes
    signers: tuple[Verifier, ...]


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding: ``DSSEv1 SP LEN(type) SP type SP LEN(payload) SP payload``."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def wrap(message: bytes) -> bytes:
    """What polkadot.js-style wallets sign instead of arbitrary bytes."""
    return b"<Bytes>" + message + b"</Bytes>"


def sign(payload: bytes, signers: Sequence[Signer], *, payload_type: str = IN_TOTO) -> Envelope:
    """Sign the payload bytes with each key."""
    message = pae(payload_type, payload)
    signatures = (Signature(signer.sign(message), signer.verifier.keyid) for signer in signers)
    return Envelope(payload, payload_type, tuple(signatures))


def attach(envelope: Envelope, verifier: Verifier, sig: bytes, *, wrapping: Wrapping = Wrapping.NONE) -> Envelope:
    """Add a signature made elsewhere (a cold machine, a browser wallet), after checking it.

    Raises:
        InvalidSignature: It is not that key's over this envelope under the declared wrapping.
        InputTooLarge: The envelope is full.
    """
    signature = Signature(sig, verifier.keyid, wrapping)
    _check_one(envelope, signature, verifier)
    if len(envelope.signatures) >= MAX_SIGNATURES:
        raise InputTooLarge("too many signatures", where="envelope", expected=f"at most {MAX_SIGNATURES}")
    return Envelope(envelope.payload, envelope.payload_type, (*envelope.signatures, signature))


def read(data: bytes, *, where: str = "envelope") -> Envelope:
    """Parse an envelope; proves nothing yet.

    Raises:
        MalformedInput: Not strict JSON, a missing or mistyped member, or damaged base64.
        InputTooLarge: More bytes or signatures than allowed.
    """
    return from_object(canonical.read_object(data, where=where), where=where)


def from_object(members: dict[str, Json], *, where: str = "envelope") -> Envelope:
    """``read`` for an envelope that stands inside another JSON document."""
    payload = decode_base64(_text(members, "payload", where), where=f"{where}: payload")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InputTooLarge("the payload is too large", where=where, got=len(payload), expected=MAX_PAYLOAD_BYTES)
    entries = members.get("signatures")
    if not isinstance(entries, list) or not entries:
        raise MalformedInput("no list of signatures", where=where, expected="at least one entry")
    if len(entries) > MAX_SIGNATURES:
        raise InputTooLarge("too many signatures", where=where, got=len(entries), expected=MAX_SIGNATURES)
    signatures = tuple(_signature(entry, f"{where}: signatures[{i}]") for i, entry in enumerate(entries))
    return Envelope(payload, _text(members, "payloadType", where), signatures)


def verify(
    envelope: Envelope,
    verifiers: Sequence[Verifier],
    *,
    threshold: int = 1,
    payload_type: str = IN_TOTO,
    where: str = "envelope",
) -> Verified:
    """Check that at least ``threshold`` distinct keys of ``verifiers`` signed the payload bytes.

    Args:
        envelope: As read.
        verifiers: The keys that count; one given twice counts once.
        threshold: t of the t-of-n rule, at least 1 and at most the number of distinct keys.
        payload_type: The only type accepted.
        where: Name of the artefact, for the error message.

    Returns:
        The payload bytes and the distinct keys that signed them, in the order of ``verifiers``.

    Raises:
        UnsupportedInput: Another payload type.
        InvalidSignature: No signature is good; the reason of the last refusal is given.
        ThresholdNotMet: Some are, but too few distinct keys.
    """
    keys = {(key.scheme, key.public_bytes): key for key in verifiers}
    if not 1 <= threshold <= len(keys):
        raise ThresholdNotMet("the threshold cannot be met", where=where, got=threshold, expected=f"1..{len(keys)}")
    if envelope.payload_type != payload_type:
        raise UnsupportedInput("wrong payload type", where=where, got=envelope.payload_type, expected=payload_type)
    refusals: list[InvalidSignature] = []
    good = tuple(key for key in keys.values() if _signed_by(envelope, key, refusals))
    if len(good) >= threshold:
        return Verified(envelope.payload, good)
    if good:
        raise ThresholdNotMet("too few distinct keys signed", where=where, got=len(good), expected=threshold)
    reason = refusals[-1]
    raise InvalidSignature(reason.what, where=where, got=reason.got, expected=reason.expected, remedy=reason.remedy)


def decode_base64(text: str, *, where: str = "base64") -> bytes:
    """Bytes of padded base64 in the standard or the URL-safe alphabet, one alphabet at a time.

    Raises:
        MalformedInput: Mixed alphabets, spaces, missing padding, or bits beyond the last byte.
    """
    standard = text.translate(_URL_SAFE)
    try:
        if not _BASE64.fullmatch(text):
            raise ValueError
        data = base64.b64decode(standard, validate=True)
    except (ValueError, binascii.Error):
        raise MalformedInput("not base64", where=where, got=text[:40], expected="RFC 4648, padded") from None
    if base64.b64encode(data).decode() != standard:
        raise MalformedInput("base64 with stray bits after the last byte", where=where)
    return data


def _signed_by(envelope: Envelope, key: Verifier, refusals: list[InvalidSignature]) -> bool:
    hinted_first = sorted(envelope.signatures, key=lambda signature: signature.keyid != key.keyid)
    for signature in hinted_first:
        try:
            _check_one(envelope, signature, key)
        except InvalidSignature as refusal:
            refusals.append(refusal)
        else:
            return True
    return False


def _check_one(envelope: Envelope, signature: Signature, key: Verifier) -> None:
    message = pae(envelope.payload_type, envelope.payload)
    if signature.wrapping is Wrapping.SUBSTRATE_BYTES:
        if key.scheme not in HOTKEY_SCHEMES:
            raise InvalidSignature("only accounts sign wrapped bytes", where=key.keyid, got=signature.wrapping)
        message = wrap(message)
    key.verify(signature.sig, message)


def _entry(signature: Signature) -> dict[str, str]:
    entry = {"keyid": signature.keyid, "sig": base64.b64encode(signature.sig).decode()}
    return entry | {"wrapping": str(signature.wrapping)} if signature.wrapping else entry


def _signature(entry: Json, where: str) -> Signature:
    if not isinstance(entry, dict):
        raise MalformedInput("not an object", where=where, got=type(entry).__name__)
    sig = decode_base64(_text(entry, "sig", where), where=f"{where}: sig")
    keyid = _text(entry, "keyid", where) if "keyid" in entry else ""
    if len(sig) > _MAX_SIGNATURE_BYTES or len(keyid) > _MAX_KEYID:
        raise InputTooLarge("signature or key id too long", where=where)
    wrapping = _text(entry, "wrapping", where) if "wrapping" in entry else ""
    if wrapping not in tuple(Wrapping):
        raise UnsupportedInput("unknown wrapping", where=where, got=wrapping, expected=Wrapping.SUBSTRATE_BYTES.value)
    return Signature(sig, keyid, Wrapping(wrapping))


def _text(members: dict[str, Json], name: str, where: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise MalformedInput(f"member {name!r} is missing or not text", where=where, got=type(value).__name__)
    return value
