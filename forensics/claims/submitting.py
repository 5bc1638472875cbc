"""Handing a statement in: the receipt is verified before it is kept, and it must be for what was handed in."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from attest import canonical
from attest import envelope as dsse
from attest.envelope import Envelope
from attest.errors import ContextMismatch
from attest.log import verify_receipt
from attest.log.proof import ProvenLeaf

from .. import fields
from ..attestations.record import LOGGED_SCHEMA, leaf_of
from ..errors import BadInput
from ..trust import Pins
from .remote import Identity, Remote


@dataclass(frozen=True)
class Submitted:
    """What a service made of a statement.

    Args:
        envelope: The statement as it was logged; with another signature, when it had been handed in before.
        receipt: Verified ``tlog-proof``.
        answer: The service's answer.
        identity: Who answered.
        pinned: Whether its key was seen for the first time.
    """

    envelope: Envelope
    receipt: bytes
    answer: dict[str, Any]
    identity: Identity
    pinned: bool


def submit(remote: Remote, envelope: Envelope, *, pair: Any, pins: Pins, genesis: str, netuid: int) -> Submitted:
    """Hand in a statement and verify the receipt.

    Args:
        remote: The service.
        envelope: The signed statement.
        pair: Hotkey of a wallet that signs the request.
        pins: Keys of logs known so far; the first key of a name is pinned.
        genesis: Chain of the statement.
        netuid: Subnet of the statement.

    Raises:
        ContextMismatch: The service is for another chain or subnet.
        BadInput: It refused, answered with another key than the pinned one, or with a receipt for something else.
        Unavailable: It cannot be reached.
    """
    identity = remote.identity()
    if identity.genesis != genesis or identity.netuid not in (None, netuid):
        raise ContextMismatch(
            "the service is for another place",
            got=f"{identity.genesis} netuid {identity.netuid}",
            expected=f"{genesis} netuid {netuid}",
        )
    pinned = pins.pin(identity.log_key)
    answer = remote.submit(envelope.to_json(), pair=pair, receiver=identity.hotkey)
    receipt = fields.text(answer, "receipt", where="answer").encode()
    proven = verify_receipt(receipt, log=identity.log_key)
    return Submitted(_logged(remote, envelope, proven), receipt, answer, identity, pinned)


def _logged(remote: Remote, envelope: Envelope, proven: ProvenLeaf) -> Envelope:
    """The envelope that the receipt is for; its payload must be ours to the byte."""
    if proven.leaf == leaf_of(envelope):
        return envelope
    members = canonical.read_object(proven.leaf, where="receipt")
    if members.get("schema") == LOGGED_SCHEMA:
        logged = dsse.from_object(_envelope(remote.attestation(envelope.digest)), where="logged statement")
    else:
        logged = dsse.from_object(members, where="receipt")
    if logged.payload != envelope.payload or leaf_of(logged) != proven.leaf:
        raise BadInput(
            "the receipt is for another statement", where="receipt", got=logged.digest, expected=envelope.digest
        )
    return logged


def _envelope(answer: dict[str, Any]) -> dict[str, Any]:
    found = answer.get("envelope")
    if not isinstance(found, dict):
        raise BadInput("no envelope in the answer", where="envelope", got=fields.shown(found), expected="an object")
    return found


def unsigned_json(payload: bytes) -> bytes:
    """A statement without signatures, to be carried to the machine that has the key."""
    return canonical.write(
        {"payload": base64.b64encode(payload).decode(), "payloadType": dsse.IN_TOTO, "signatures": []}
    )


def read_unsigned(data: bytes, *, where: str) -> Envelope:
    """An envelope that may still lack its signatures; what is there is not believed.

    Raises:
        MalformedInput: Not an envelope.
    """
    members = canonical.read_object(data, where=where)
    if members.get("signatures") != []:
        return dsse.from_object(members, where=where)
    payload = members.get("payload")
    decoded = dsse.decode_base64(payload if isinstance(payload, str) else "", where=f"{where}: payload")
    kind = members.get("payloadType")
    return Envelope(decoded, kind if isinstance(kind, str) else "", ())
