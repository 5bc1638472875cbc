"""The door itself: signed requests, problems with stable codes, limits, and the same answer to the same request."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from bittensor import http_auth
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.envelope import wrap
from attest.log import verify_receipt
from forensics.api.app import create_app
from forensics.api.limits import MAX_BODY
from tests.forensics.attesting import PLACE, anchor, claim_of, digest, hotkey, pair, post, signed, signer

ADA, BOB = pair("ada"), pair("bob", crypto_type=0)
PATH = "/v1/attestations"


def body_of(who, model="m", place=PLACE):
    return signed(claim_of(who, model, place=place), signer(who)).to_json()


def code(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["code"]


@pytest.fixture
def headers(services):
    """Makes the headers of a signed request."""

    def headers(who, sent, **changed):
        parts = {
            "method": "POST",
            "path": PATH,
            "body": sent,
            "receiver_ss58": services.hotkey,
            "nonce_ns": services.clock.nanoseconds,
        }
        return http_auth.sign(who, **(parts | changed))

    return headers


@pytest.mark.parametrize("who", [ADA, BOB], ids=["sr25519", "ed25519"])
def test_a_claim_is_answered_with_a_receipt_and_can_be_fetched(services, client, who):
    answer = post(services, client, who, body_of(who))
    assert answer.status_code == 201
    found = client.get(f"{PATH}/{answer.json()['digest']}").json()
    assert found["standing"] == "unanchored"
    assert found["hotkey"] == hotkey(who).address
    proven = verify_receipt(found["receipt"].encode(), log=services.log_key)
    assert json.loads(proven.leaf) == found["envelope"]
    assert found["statement"]["subject"][0]["digest"]["sha256"] == digest("m")[7:]
    anchor(services, 77, 3)
    again = client.get(f"{PATH}/{answer.json()['digest']}").json()
    assert (again["effective"], again["standing"]) == ({"block": 77, "extrinsic_index": 3}, "first")


def test_anybody_may_carry_a_claim_that_is_signed(services, client):
    assert post(services, client, BOB, body_of(ADA)).status_code == 201


def test_the_same_claim_again_is_200_and_the_same(services, client):
    first, again = (post(services, client, ADA, body_of(ADA)) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["log_index"] == again.json()["log_index"]


def test_requests_at_once_store_one_claim(services, client):
    body = body_of(ADA)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda name: post(services, client, pair(name), body), ["a", "b", "c", "d"]))
    assert {a.status_code for a in answers} <= {200, 201}
    assert len({a.json()["digest"] for a in answers}) == 1


def test_a_request_that_is_not_signed_is_refused(services, client):
    assert code(client.post(PATH, content=body_of(ADA))) == (401, "auth_malformed")
    assert services.log.size() == 0


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"method": "PUT"}, "auth_bad_signature"),
        ({"path": PATH + "/x"}, "auth_bad_signature"),
        ({"path": PATH + "?a=b"}, "auth_bad_signature"),
        ({"body": b"another"}, "auth_bad_signature"),
        ({"receiver_ss58": None}, "auth_wrong_receiver"),
        ({"receiver_ss58": hotkey(BOB).address}, "auth_wrong_receiver"),
    ],
)
def test_method_path_body_and_receiver_are_bound(client, headers, changed, expected):
    body = body_of(ADA)
    assert code(client.post(PATH, content=body, headers=headers(ADA, body, **changed))) == (401, expected)


@pytest.mark.parametrize("seconds", [-11, 3])
def test_an_old_or_future_request_is_stale(services, client, headers, seconds):
    body = body_of(ADA)
    nonce = services.clock.nanoseconds + seconds * 10**9
    assert code(client.post(PATH, content=body, headers=headers(ADA, body, nonce_ns=nonce))) == (401, "auth_stale")


def test_a_replayed_request_is_refused_by_every_process_on_the_database(services, client, headers):
    body = body_of(ADA)
    auth = headers(ADA, body)
    assert client.post(PATH, content=body, headers=auth).status_code == 201
    with TestClient(create_app(services)) as other:
        assert code(other.post(PATH, content=body, headers=auth)) == (401, "auth_replayed")


def test_a_request_signed_in_wrapped_form_is_refused(services, client):
    """bittensor's verifier takes the ``<Bytes>`` form; ours does not, for it was not declared."""

    class Wrapping:
        ss58_address, public_key, crypto_type = ADA.ss58_address, ADA.public_key, ADA.crypto_type

        def sign(self, payload):
            return ADA.sign(wrap(payload))

    assert code(post(services, client, Wrapping(), body_of(ADA))) == (401, "auth_bad_signature")


def test_a_signature_under_the_other_scheme_is_refused(client, headers):
    body = body_of(ADA)
    auth = headers(ADA, body) | {http_auth.HEADER_CRYPTO: "ed25519"}
    assert client.post(PATH, content=body, headers=auth).status_code == 401


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "malformed_input")),
        (b"{}", (400, "malformed_input")),
        (b'{"payload":"e30=","payload":"e30=","payloadType":"x","signatures":[{"sig":""}]}', (400, "malformed_input")),
        (b'{"payload":"e30=","payloadType":"text/plain","signatures":[{"sig":""}]}', (415, "unsupported_input")),
        (b'{"a":' * 40, (413, "input_too_large")),
        (b"\xff\xfe", (400, "malformed_input")),
    ],
)
def test_what_is_no_statement_is_refused_by_name(services, client, body, expected):
    assert code(post(services, client, ADA, body)) == expected


def test_refusals_keep_their_names_over_http(services, client):
    elsewhere = body_of(ADA, place=type(PLACE)(PLACE.genesis, 7, "demo"))
    assert code(post(services, client, ADA, elsewhere)) == (422, "context_mismatch")
    forged = signed(claim_of(ADA), signer(BOB)).to_json()
    assert code(post(services, client, ADA, forged)) == (422, "invalid_signature")
    assert services.log.size() == 0


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(at=st.integers(0, 10_000), by=st.integers(1, 255))
def test_no_damaged_claim_is_taken_and_none_is_a_500(services, client, at, by):
    body = bytearray(body_of(ADA, "fuzz"))
    body[at % len(body)] ^= by
    answer = post(services, client, ADA, bytes(body))
    assert answer.status_code < 500
    if answer.status_code < 300:  # only what nobody signed may differ: a key id, an unknown member
        assert answer.json()["digest"] == signed(claim_of(ADA, "fuzz"), signer(ADA)).digest


def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not(services):
    with TestClient(create_app(services, max_body=1000)) as client:
        assert code(post(services, client, ADA, b"x" * 1001)) == (413, "body_too_large")
        assert code(client.post(PATH, content=iter([b"x" * 600, b"x" * 600]))) == (413, "body_too_large")
        lying = client.post(PATH, content=b"x", headers={"Content-Length": "99999999999999999999"})
        assert code(lying) == (413, "body_too_large")
    assert MAX_BODY == 16 << 20


def test_an_idempotency_key_gives_the_same_answer_to_the_same_request_alone(services, client):
    body = body_of(ADA)
    first = post(services, client, ADA, body, **{"Idempotency-Key": "k1"})
    again = post(services, client, ADA, body, **{"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    other = post(services, client, ADA, body_of(ADA, "other"), **{"Idempotency-Key": "k1"})
    assert code(other) == (422, "idempotency_key_reused")
    assert post(services, client, BOB, body_of(BOB), **{"Idempotency-Key": "k1"}).status_code == 201
    assert code(post(services, client, ADA, body, **{"Idempotency-Key": "k 1"})) == (400, "idempotency_key_malformed")


def test_an_answer_is_forgotten_after_a_day(services, client):
    post(services, client, ADA, body_of(ADA), **{"Idempotency-Key": "k1"})
    services.clock.forward(25 * 3600)
    assert post(services, client, ADA, body_of(ADA, "other"), **{"Idempotency-Key": "k1"}).status_code == 201


def test_unknown_things_are_404_problems(client):
    assert code(client.get(f"{PATH}/sha256:{'0' * 64}")) == (404, "not_known")
    assert code(client.get("/v1/nothing")) == (404, "not_found")
    assert code(client.delete(f"{PATH}/x")) == (405, "method_not_allowed")


def test_an_error_nobody_foresaw_says_nothing_of_the_inside(services, client, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("secret path /etc/shadow")

    monkeypatch.setattr(services.attestations, "receive", broken)
    answer = post(services, client, ADA, body_of(ADA))
    assert code(answer) == (500, "internal_error")
    assert "secret" not in answer.text
