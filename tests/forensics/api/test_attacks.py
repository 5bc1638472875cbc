"""The attacks of design/3-attest section 4 that come through the door, each refused by its name and never a 500."""

from __future__ import annotations

import base64
import json

import pytest

from attest.envelope import IN_TOTO, pae, wrap
from attest.keys import ss58
from attest.keys.ed25519 import L
from attest.predicates import Context
from attest.statement import state
from tests.attest import material
from tests.attest.material import BUNDLE_KEY
from tests.forensics.attesting import PLACE, claim_of, pair, post, signed, signer

SR, ED = pair("sr"), pair("ed", crypto_type=0)
SMALL_ORDER = bytes([1]) + bytes(31)  # the identity of edwards25519


@pytest.fixture
def refused(services, client):
    """Hands in an envelope and gives status and code; nothing may be logged."""

    def refused(envelope: dict[str, object] | bytes):
        body = envelope if isinstance(envelope, bytes) else json.dumps(envelope).encode()
        answer = post(services, client, SR, body)
        assert services.log.size() == 0
        return answer.status_code, answer.json()["code"]

    return refused


def envelope(payload: bytes, *signatures: bytes, kind: str = IN_TOTO, **more: str) -> dict[str, object]:
    entries = [{"sig": base64.b64encode(sig).decode(), **more} for sig in signatures]
    return {"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": entries}


def signature(key, payload: bytes) -> bytes:
    return signer(key).sign(pae(IN_TOTO, payload))


def malleated(sig: bytes) -> bytes:
    """s + L: the same equation, other bytes."""
    return sig[:32] + (int.from_bytes(sig[32:], "little") + L).to_bytes(32, "little")


@pytest.mark.parametrize(
    ("key", "change"),
    [
        (ED, malleated),
        (ED, lambda sig: sig[:-1]),
        (ED, lambda sig: sig + b"\0"),
        (ED, lambda sig: b""),
        (ED, lambda sig: bytes(64)),
        (SR, lambda sig: sig[:-1] + bytes([sig[-1] & 0x7F])),
        (SR, lambda sig: sig[:63]),
        (SR, lambda sig: bytes(63) + b"\x80"),
        (SR, lambda sig: b"\1" + sig),
    ],
    ids=["s+L", "short", "long", "empty", "zeros", "no marker bit", "short sr", "identity sr", "prefixed sr"],
)
def test_signatures_that_are_almost_good(refused, key, change):
    payload = claim_of(key).payload()
    assert refused(envelope(payload, change(signature(key, payload)))) == (422, "invalid_signature")


@pytest.mark.parametrize(
    ("scheme", "public"),
    [("ed25519", SMALL_ORDER), ("ed25519", b"\xff" * 31 + b"\x7f"), ("sr25519", bytes(32)), ("sr25519", b"\xff" * 32)],
    ids=["small order", "not reduced", "identity", "no point"],
)
def test_keys_no_honest_account_has(refused, scheme, public):
    """For a key of small order one signature would be valid for every message."""
    statement = json.loads(claim_of(ED).payload())
    statement["predicate"]["context"] |= {"scheme": scheme, "hotkey": ss58.encode(public)}
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    assert refused(envelope(payload, SMALL_ORDER + bytes(32))) == (422, "invalid_key")


def test_another_scheme_on_the_same_account(refused):
    statement = json.loads(claim_of(SR).payload())
    statement["predicate"]["context"]["scheme"] = "ed25519"
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    status, code = refused(envelope(payload, signature(SR, payload)))
    assert (status, code in ("invalid_signature", "invalid_key")) == (422, True)


def test_a_key_of_a_bundle_cannot_speak_for_an_account(refused):
    payload = claim_of(SR).payload()
    assert refused(envelope(payload, BUNDLE_KEY.sign(pae(IN_TOTO, payload)))) == (422, "invalid_signature")


def test_a_wrapped_signature_counts_only_where_it_is_declared(services, client, refused):
    payload = claim_of(SR).payload()
    wrapped = SR.sign(wrap(pae(IN_TOTO, payload)))
    assert refused(envelope(payload, wrapped)) == (422, "invalid_signature")
    declared = json.dumps(envelope(payload, wrapped, wrapping="substrate-bytes")).encode()
    assert post(services, client, SR, declared).status_code == 201


@pytest.mark.parametrize(
    "tricked",
    [
        lambda text: text.replace('"netuid":120', '"netuid":120,"netuid":120'),
        lambda text: text.replace('"netuid":120', '"net\\u0075id":120'),
        lambda text: text.replace('"netuid":120', '"netuid":120.0'),
        lambda text: text.replace('"netuid":120', '"netuid":NaN'),
        lambda text: text.replace('"netuid":120', '"netuid":9007199254740993'),
        lambda text: text.replace('"note":""', '"note":"\\ud800"'),
        lambda text: text.replace('"note":""', '"note": ""'),
        lambda text: text.replace('"note":""', '"note":"","extra":1'),
        lambda text: text + " ",
        lambda text: "\ufeff" + text,
    ],
    ids=["key twice", "key escaped", "float", "NaN", "large", "surrogate", "space", "unknown", "trailer", "mark"],
)
def test_tricks_with_json(refused, tricked):
    payload = tricked(claim_of(SR).payload().decode()).encode()
    status, code = refused(envelope(payload, signature(SR, payload)))
    assert (status, code) in [(400, "malformed_input"), (400, "not_canonical")]


def test_another_payload_type_even_when_it_is_signed(refused):
    payload = claim_of(SR).payload()
    sig = signer(SR).sign(pae("application/json", payload))
    assert refused(envelope(payload, sig, kind="application/json")) == (415, "unsupported_input")


def test_one_key_counted_twice_is_one_key(refused):
    """A hand-over needs two keys; two signatures of one are one."""
    rotation = material.rotation(context=PLACE.context(material.hotkey(material.MINER)))
    payload = state(rotation.predicate).payload()
    twice = [material.MINER.sign(pae(IN_TOTO, payload)) for _ in range(2)]
    assert refused(envelope(payload, *twice)) == (422, "threshold_not_met")


def test_both_alphabets_of_base64_are_read_and_name_one_statement(services, client):
    body = signed(claim_of(SR), signer(SR)).to_json()
    members = json.loads(body)
    members["payload"] = members["payload"].replace("+", "-").replace("/", "_")
    first = post(services, client, SR, body)
    assert post(services, client, SR, json.dumps(members).encode()).json()["digest"] == first.json()["digest"]


def test_an_address_of_another_prefix_is_not_translated(refused):
    statement = json.loads(claim_of(SR).payload())
    context = Context.read(statement["predicate"]["context"])
    other = ss58.encode(ss58.account_id(context.hotkey), prefix=0)
    payload = claim_of(SR).payload().replace(context.hotkey.encode(), other.encode())
    assert refused(envelope(payload, signature(SR, payload)))[0] == 400


def test_a_branch_is_no_revision(refused):
    text = claim_of(SR).payload().decode().replace('"release":null', '"release":{"repo":"a/b","revision":"main"}')
    assert refused(envelope(text.encode(), signature(SR, text.encode()))) == (400, "malformed_input")


def test_the_page_of_the_api_needs_nothing_from_elsewhere(client):
    page = client.get("/docs").text
    assert "/v1/attestations/{digest}" in page
    assert "://" not in page
    assert "<script" not in page
