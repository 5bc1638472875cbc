"""From bytes to a usable statement: signature, authority, and the place it was signed for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from attest import canonical
from attest import envelope as dsse
from attest.checking import Expected, check
from attest.envelope import IN_TOTO, Envelope
from attest.errors import (
    AttestError,
    ContextMismatch,
    InvalidKey,
    InvalidSignature,
    MalformedInput,
    ThresholdNotMet,
    UnsupportedInput,
)
from attest.keys import ss58
from attest.predicates import Decision, KeyRotation, Ownership, Predicate, Verdicts
from tests.attest.material import (
    COLD,
    GENESIS,
    HERE,
    MINER,
    RIVAL,
    SERVICE,
    context,
    every_statement,
    hotkey,
    ownership,
)

EVERY = every_statement()


@pytest.mark.parametrize("name", EVERY)
def test_every_statement_verifies_from_its_bytes_alone(name: str) -> None:
    statement, signers = EVERY[name]
    received = dsse.sign(statement.payload(), signers).to_json()
    checked = check(received, Predicate, expected=HERE, trusted=[SERVICE.verifier])
    assert (checked.statement, checked.digest) == (statement, statement.digest)
    assert checked.signers == tuple(signer.verifier for signer in signers)


@pytest.mark.parametrize("name", EVERY)
def test_nobody_else_can_sign_it(name: str) -> None:
    statement, _ = EVERY[name]
    with pytest.raises(InvalidSignature):
        check(dsse.sign(statement.payload(), [RIVAL]), Predicate, expected=HERE, trusted=[SERVICE.verifier])


@pytest.mark.parametrize(
    ("elsewhere", "name"),
    [
        (replace(HERE, genesis="0x" + "0" * 64), "genesis"),
        (replace(HERE, netuid=121), "netuid"),
        (replace(HERE, competition="other"), "competition"),
        (replace(HERE, hotkey=hotkey(RIVAL)), "hotkey"),
    ],
)
def test_a_replay_elsewhere_is_a_context_mismatch(elsewhere: Expected, name: str) -> None:
    envelope = dsse.sign(ownership().payload(), [MINER])
    check(envelope, Ownership, expected=HERE)
    with pytest.raises(ContextMismatch, match=name) as caught:
        check(envelope, Ownership, expected=elsewhere)
    assert caught.value.code == "context_mismatch"


def test_a_context_that_was_edited_is_no_longer_signed() -> None:
    envelope = dsse.sign(ownership().payload(), [MINER])
    edited = ownership(netuid=121).payload()
    with pytest.raises(InvalidSignature):
        check(replace(envelope, payload=edited), Ownership, expected=replace(HERE, netuid=121))


def test_a_statement_of_another_kind_is_refused() -> None:
    with pytest.raises(UnsupportedInput, match="another kind"):
        check(dsse.sign(ownership().payload(), [MINER]), KeyRotation, expected=HERE)


def test_another_payload_type_is_refused() -> None:
    envelope = dsse.sign(ownership().payload(), [MINER], payload_type="application/json")
    with pytest.raises(UnsupportedInput, match="payload type"):
        check(envelope, Ownership, expected=HERE)


@pytest.mark.parametrize("kind", [Verdicts, Decision])
def test_authority_comes_from_trusted_keys_only(kind: Any) -> None:
    name = {Verdicts: "snapshot", Decision: "decision"}[kind]
    envelope = dsse.sign(EVERY[name][0].payload(), [SERVICE])
    with pytest.raises(InvalidSignature, match="no key is trusted"):
        check(envelope, kind, expected=HERE)
    with pytest.raises(InvalidSignature):
        check(envelope, kind, expected=HERE, trusted=[COLD.verifier])
    with pytest.raises(ThresholdNotMet):
        check(envelope, kind, expected=HERE, trusted=[SERVICE.verifier, COLD.verifier], threshold=2)
    both = dsse.sign(EVERY[name][0].payload(), [SERVICE, COLD])
    checked = check(both, kind, expected=HERE, trusted=[SERVICE.verifier, COLD.verifier], threshold=2)
    assert checked.signers == (SERVICE.verifier, COLD.verifier)


def test_the_scheme_is_signed_and_the_other_is_never_tried() -> None:
    """The same 32 bytes read as ed25519: the miner's sr25519 signature must not count, nor the other way round."""
    members = json.loads(ownership().payload())
    members["predicate"]["context"]["scheme"] = "ed25519"
    payload = canonical.write(members)
    with pytest.raises((InvalidKey, InvalidSignature)):
        check(dsse.sign(payload, [MINER]), Ownership, expected=HERE)
    members = json.loads(ownership(COLD).payload())
    members["predicate"]["context"]["scheme"] = "sr25519"
    with pytest.raises((InvalidKey, InvalidSignature)):
        check(dsse.sign(canonical.write(members), [COLD]), Ownership, expected=HERE)


@pytest.mark.parametrize("scheme", ["sr25519", "ed25519"])
def test_keys_that_fit_every_signature_own_nothing(scheme: str) -> None:
    identity = bytes(32) if scheme == "sr25519" else (1).to_bytes(32, "little")
    forgery = bytes(63) + b"\x80" if scheme == "sr25519" else identity + bytes(32)
    members = json.loads(ownership().payload())
    members["predicate"]["context"] |= {"scheme": scheme, "hotkey": ss58.encode(identity)}
    envelope = Envelope(canonical.write(members), IN_TOTO, (dsse.Signature(forgery),))
    with pytest.raises(InvalidKey):
        check(envelope, Ownership, expected=HERE)


def test_any_changed_byte_of_payload_or_signature_is_refused() -> None:
    envelope = dsse.sign(ownership(COLD).payload(), [COLD])
    payload, sig = envelope.payload, envelope.signatures[0].sig
    for at in range(len(payload)):
        for change in (1, 0x80):
            damaged = payload[:at] + bytes([payload[at] ^ change]) + payload[at + 1 :]
            with pytest.raises(AttestError):
                check(replace(envelope, payload=damaged), Ownership, expected=HERE)
    for at in range(len(sig)):
        damaged = sig[:at] + bytes([sig[at] ^ 1]) + sig[at + 1 :]
        with pytest.raises(InvalidSignature):
            check(replace(envelope, signatures=(dsse.Signature(damaged),)), Ownership, expected=HERE)


def test_the_same_claim_again_has_the_same_digest() -> None:
    once, again = (dsse.sign(ownership().payload(), [MINER]).to_json() for _ in range(2))
    assert once != again
    first, second = (check(received, Ownership, expected=HERE) for received in (once, again))
    assert first.digest == second.digest


def test_there_is_no_uid_in_a_context() -> None:
    members = json.loads(ownership().payload())
    members["predicate"]["context"]["uid"] = 7
    with pytest.raises(MalformedInput, match="unknown member"):
        check(dsse.sign(canonical.write(members), [MINER]), Ownership, expected=HERE)
    assert not hasattr(context(MINER), "uid")
    assert context(MINER).genesis == GENESIS
