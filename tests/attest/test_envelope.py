"""DSSE envelopes: what is signed, who counts, and what is tolerated around it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import envelope as dsse
from attest.envelope import IN_TOTO, Envelope, Signature, Wrapping, pae, wrap
from attest.errors import (
    AttestError,
    InputTooLarge,
    InvalidSignature,
    MalformedInput,
    ThresholdNotMet,
    UnsupportedInput,
)
from tests.attest.material import BUNDLE_KEY, COLD, MINER, RIVAL, SERVICE

PAYLOAD = b'{"a":"\xc3\xa9?>"}'
MESSAGE = pae(IN_TOTO, PAYLOAD)


def signed(*signers: Any) -> Envelope:
    return dsse.sign(PAYLOAD, signers or (MINER,))


def altered(envelope: Envelope, **members: Any) -> bytes:
    return json.dumps(json.loads(envelope.to_json()) | members).encode()


def test_the_encoding_counts_bytes() -> None:
    assert pae("é", b"\n ") == b"DSSEv1 2 \xc3\xa9 2 \n "


@pytest.mark.parametrize("signer", [MINER, COLD, BUNDLE_KEY])
def test_what_is_signed_is_read_back_and_verified(signer: Any) -> None:
    envelope = dsse.read(signed(signer).to_json())
    verified = dsse.verify(envelope, [signer.verifier])
    assert (verified.payload, verified.signers) == (PAYLOAD, (signer.verifier,))


@pytest.mark.parametrize("name", ["standard", "url-safe"])
def test_both_base64_alphabets_are_read(name: str) -> None:
    encode = {"standard": base64.b64encode, "url-safe": base64.urlsafe_b64encode}[name]
    envelope = signed(MINER)
    entry = {"keyid": "", "sig": encode(envelope.signatures[0].sig).decode()}
    data = altered(envelope, payload=encode(PAYLOAD).decode(), signatures=[entry])
    dsse.verify(dsse.read(data), [MINER.verifier])


@pytest.mark.parametrize("text", ["QQ", "QQ=", "QR==", "Q Q=", "QQ==\n", "+-==", "+A_A", "é", "====", "QQ==QQ=="])
def test_damaged_base64_is_refused(text: str) -> None:
    with pytest.raises(MalformedInput):
        dsse.decode_base64(text)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xfb\xef\xbe", bytes(range(256))])
def test_base64_of_either_alphabet(data: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert dsse.decode_base64(encode(data).decode()) == data


def test_another_payload_type_is_refused_even_if_signed() -> None:
    envelope = dsse.sign(PAYLOAD, [MINER], payload_type="application/json")
    with pytest.raises(UnsupportedInput, match="payload type"):
        dsse.verify(envelope, [MINER.verifier])


def test_a_signature_does_not_move_to_another_payload_type() -> None:
    envelope = replace(dsse.sign(PAYLOAD, [MINER], payload_type="application/json"), payload_type=IN_TOTO)
    with pytest.raises(InvalidSignature):
        dsse.verify(envelope, [MINER.verifier])


def test_one_key_counts_once() -> None:
    twice = Envelope(PAYLOAD, IN_TOTO, signed(MINER).signatures + signed(MINER).signatures)
    assert twice.signatures[0].sig != twice.signatures[1].sig
    with pytest.raises(ThresholdNotMet) as caught:
        dsse.verify(twice, [MINER.verifier, RIVAL.verifier], threshold=2)
    assert caught.value.code == "threshold_not_met"
    with pytest.raises(ThresholdNotMet):
        dsse.verify(twice, [MINER.verifier, MINER.verifier], threshold=2)


def test_two_of_three() -> None:
    keys = [SERVICE.verifier, MINER.verifier, COLD.verifier]
    verified = dsse.verify(signed(COLD, SERVICE), keys, threshold=2)
    assert verified.signers == (SERVICE.verifier, COLD.verifier)
    with pytest.raises(ThresholdNotMet):
        dsse.verify(signed(COLD, RIVAL), keys, threshold=2)


@pytest.mark.parametrize("threshold", [0, -1, 2])
def test_a_threshold_nobody_can_mean_is_refused(threshold: int) -> None:
    with pytest.raises(ThresholdNotMet):
        dsse.verify(signed(MINER), [MINER.verifier], threshold=threshold)
    with pytest.raises(ThresholdNotMet):
        dsse.verify(signed(MINER), [], threshold=threshold)


@pytest.mark.parametrize("keyid", ["", "nonsense", RIVAL.verifier.keyid])
def test_key_ids_are_only_hints(keyid: str) -> None:
    envelope = signed(MINER)
    hinted = replace(envelope, signatures=(replace(envelope.signatures[0], keyid=keyid),))
    dsse.verify(hinted, [RIVAL.verifier, MINER.verifier])
    with pytest.raises(InvalidSignature):
        dsse.verify(hinted, [RIVAL.verifier])


@pytest.mark.parametrize("signer", [MINER, COLD])
def test_wrapping_counts_only_when_declared(signer: Any) -> None:
    wrapped = Signature(signer.sign(wrap(MESSAGE)))
    with pytest.raises(InvalidSignature):
        dsse.verify(Envelope(PAYLOAD, IN_TOTO, (wrapped,)), [signer.verifier])
    declared = Envelope(PAYLOAD, IN_TOTO, (replace(wrapped, wrapping=Wrapping.SUBSTRATE_BYTES),))
    dsse.verify(dsse.read(declared.to_json()), [signer.verifier])
    plain = replace(signed(signer).signatures[0], wrapping=Wrapping.SUBSTRATE_BYTES)
    with pytest.raises(InvalidSignature):
        dsse.verify(Envelope(PAYLOAD, IN_TOTO, (plain,)), [signer.verifier])


def test_only_accounts_wrap() -> None:
    entry = Signature(BUNDLE_KEY.sign(wrap(MESSAGE)), wrapping=Wrapping.SUBSTRATE_BYTES)
    with pytest.raises(InvalidSignature, match="only accounts"):
        dsse.verify(Envelope(PAYLOAD, IN_TOTO, (entry,)), [BUNDLE_KEY.verifier])


def test_a_signature_made_elsewhere_is_attached_once_it_is_good() -> None:
    empty = Envelope(PAYLOAD, IN_TOTO, ())
    envelope = dsse.attach(empty, COLD.verifier, COLD.sign(MESSAGE))
    envelope = dsse.attach(envelope, MINER.verifier, MINER.sign(wrap(MESSAGE)), wrapping=Wrapping.SUBSTRATE_BYTES)
    assert len(dsse.verify(envelope, [MINER.verifier, COLD.verifier], threshold=2).signers) == 2
    with pytest.raises(InvalidSignature):
        dsse.attach(envelope, RIVAL.verifier, COLD.sign(MESSAGE))


def test_unknown_members_are_ignored_and_not_kept() -> None:
    envelope = signed(MINER)
    entry = json.loads(envelope.to_json())["signatures"][0] | {"cert": "x"}
    assert dsse.read(altered(envelope, signatures=[entry], extra=[1])).to_json() == envelope.to_json()


@pytest.mark.parametrize(
    "members",
    [
        {"payload": None},
        {"payload": 1},
        {"payloadType": None},
        {"signatures": None},
        {"signatures": []},
        {"signatures": {}},
        {"signatures": ["x"]},
        {"signatures": [{}]},
        {"signatures": [{"sig": 1}]},
        {"signatures": [{"sig": "QQ==", "keyid": 7}]},
        {"signatures": [{"sig": "QQ==", "wrapping": "twice"}]},
        {"signatures": [{"sig": "QQ=="}] * 33},
        {"signatures": [{"sig": "QUFB" * 500}]},
        {"signatures": [{"sig": "QQ==", "keyid": "k" * 300}]},
    ],
)
def test_malformed_envelopes_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises((MalformedInput, UnsupportedInput)):
        dsse.read(altered(signed(MINER), **members))


def test_large_payloads_are_refused() -> None:
    payload = base64.b64encode(bytes(dsse.MAX_PAYLOAD_BYTES + 1)).decode()
    with pytest.raises(InputTooLarge):
        dsse.read(altered(signed(MINER), payload=payload))


def test_same_payload_same_digest_whatever_the_signatures() -> None:
    assert signed(MINER).digest == signed(MINER).digest == signed(COLD, MINER).digest
    assert signed(MINER).to_json() != signed(MINER).to_json()


ENVELOPE = signed(MINER).to_json()


@given(st.integers(0, len(ENVELOPE) - 1), st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_is_refused_or_changes_nothing_that_is_signed(at: int, change: int) -> None:
    damaged = ENVELOPE[:at] + bytes([ENVELOPE[at] ^ change]) + ENVELOPE[at + 1 :]
    try:
        verified = dsse.verify(dsse.read(damaged), [MINER.verifier])
    except AttestError:
        return
    assert verified.payload == PAYLOAD  # only key ids, which nobody signs, may differ
    assert ENVELOPE.index(b"keyid") <= at < ENVELOPE.index(b'"sig"')


@settings(deadline=None)  # a busy machine is not a failure
@given(
    st.dictionaries(
        st.sampled_from(["payload", "payloadType", "signatures", "x"]),
        st.none()
        | st.integers()
        | st.text(max_size=9)
        | st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=9))),
    )
)
def test_no_envelope_raises_anything_else(members: dict[str, Any]) -> None:
    try:
        dsse.verify(dsse.read(json.dumps(members).encode()), [MINER.verifier])
    except AttestError:
        return
    raise AssertionError("an envelope nobody signed was accepted")
