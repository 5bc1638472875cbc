"""What a file is, by how it starts; only a choice of reader, for each of them believes nothing unchecked."""

from __future__ import annotations

from enum import StrEnum

from attest import canonical
from attest.errors import UnsupportedInput
from attest.log.proof import HEADER
from attest.modelsigning.bundle import MEDIA_TYPE


class Kind(StrEnum):
    """What can be verified."""

    RECEIPT = "receipt"
    STATEMENT = "statement"
    BUNDLE = "model-signing bundle"
    CHECKPOINT = "checkpoint"
    EVIDENCE = "evidence bundle"
    SNAPSHOT = "snapshot"


def kind_of(data: bytes, *, where: str) -> Kind:
    """The kind of a file.

    Raises:
        UnsupportedInput: None of ours.
        MalformedInput: JSON that is not strict.
    """
    if data.startswith(HEADER.encode()):
        return Kind.RECEIPT
    if data.startswith(b"PK\x03\x04"):
        return Kind.EVIDENCE
    if data.lstrip()[:1] == b"{":
        members = canonical.read_object(data, where=where)
        if "payloadType" in members:
            return Kind.STATEMENT
        if members.get("mediaType") == MEDIA_TYPE or "dsseEnvelope" in members:
            return Kind.BUNDLE
    if b"\n\n\xe2\x80\x94 " in data:
        return Kind.CHECKPOINT
    raise UnsupportedInput(
        "not a file that can be verified",
        where=where,
        got=ascii(data[:24].decode("latin-1")),
        expected=", ".join(Kind),
    )
