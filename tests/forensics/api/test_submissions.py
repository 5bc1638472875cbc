"""Handing in commitments: whose word counts for what, and how they are shown."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from bittensor import http_auth
from sqlalchemy import insert

from attest.keys import ss58
from forensics.api.roles import Role
from forensics.chain.observed import Kind
from forensics.entries.claimed import Claimed
from forensics.store.chain import CommitRow
from forensics.store.engine import writing
from tests.forensics.attesting import GENESIS, NETUID, NOON, hotkey, pair

ADA, BOB, OPERATOR = pair("ada"), pair("bob", crypto_type=0), pair("operator")
REVISION = "8d1a2c3b4e5f60718293a4b5c6d7e8f901234567"
PATH = "/v1/submissions"


@pytest.fixture
def door(services, client):
    services.roles._granted[hotkey(OPERATOR).address] = Role.OPERATOR
    return client


@pytest.fixture
def hand_in(services, door):
    def hand_in(who, *, headers=None, body=None, **fields):
        said = {"netuid": NETUID, "hotkey": hotkey(ADA).address, "repo": "ada/model", "revision": REVISION} | fields
        body = json.dumps(said).encode() if body is None else body
        parts = {"method": "POST", "path": PATH, "body": body, "receiver_ss58": services.hotkey}
        signed = http_auth.sign(who, nonce_ns=services.clock.nanoseconds, **parts)
        services.clock.forward(0.001)
        return door.post(PATH, content=body, headers=signed | (headers or {}))

    return hand_in


def committed(services, who=ADA, *, block=50, repo="ada/model", revision=REVISION, kind=Kind.PLAIN):
    data = json.dumps({"model": repo, "revision": revision}).encode()
    row = {"genesis": GENESIS, "netuid": NETUID, "hotkey": hotkey(who).address, "block": block, "extrinsic": 3}
    row |= {"kind": kind, "data": data, "digest": sha256(data).hexdigest(), "exact": True, "seen_at": NOON}
    with writing(services.engine) as session:
        session.execute(insert(CommitRow), [row])


def test_a_miner_hurries_its_own_commitment_and_the_chain_says_where_it_stands(services, door, hand_in):
    committed(services, block=50)
    committed(services, block=70)
    answer = hand_in(ADA)
    found = answer.json()
    assert (answer.status_code, found["block"], found["extrinsic"]) == (202, 50, 3)
    assert (found["state"], found["ended"], found["source"]) == ("found", False, "api")
    assert door.get(answer.headers["location"]).json() == found
    again = hand_in(ADA)
    assert (again.status_code, again.json()) == (200, found)


def test_nobody_dates_a_commitment_back(services, hand_in):
    committed(services, block=50)
    assert hand_in(ADA, block=1).json()["block"] == 50
    refused = hand_in(ADA, revision="f" * 40, block=1)
    assert (refused.status_code, refused.json()["code"]) == (409, "commitment_unknown")
    assert len(services.entries.of(NETUID)) == 1


def test_what_another_hotkey_committed_is_not_mine(services, hand_in):
    committed(services, BOB)
    assert hand_in(ADA).json()["code"] == "commitment_unknown"
    refused = hand_in(BOB)
    assert (refused.status_code, refused.json()["code"]) == (403, "role_missing")


def test_what_is_still_sealed_names_nothing(services, hand_in):
    committed(services, kind=Kind.SEALED)
    assert hand_in(ADA).json()["code"] == "commitment_unknown"


def test_an_operator_hands_in_for_others_and_says_the_block(services, hand_in):
    answer = hand_in(OPERATOR, block=12, extrinsic=4)
    assert (answer.status_code, answer.json()["block"], answer.json()["extrinsic"]) == (202, 12, 4)
    assert hand_in(OPERATOR, revision="e" * 40).json()["code"] == "commitment_unknown"


def test_one_account_is_one_account_whatever_its_prefix(services, hand_in):
    committed(services)
    other = ss58.encode(ss58.account_id(hotkey(ADA).address), prefix=13)
    assert hand_in(ADA, hotkey=other).json()["hotkey"] == hotkey(ADA).address


def test_the_same_key_twice_is_one_request(services, hand_in):
    committed(services)
    first = hand_in(ADA, headers={"Idempotency-Key": "one"})
    again = hand_in(ADA, headers={"Idempotency-Key": "one"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.content == again.content
    assert again.headers["location"] == first.headers["location"]
    other = hand_in(ADA, headers={"Idempotency-Key": "one"}, revision="d" * 40)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_unsigned_is_refused(services, door):
    answer = door.post(PATH, content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (401, "auth_malformed")
    assert answer.headers["www-authenticate"] == "btauth/1"


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"netuid": 121}, 422, "netuid_not_served"),
        ({"netuid": True}, 422, "invalid_request"),
        ({"netuid": "120"}, 422, "invalid_request"),
        ({"revision": "main"}, 422, "invalid_request"),
        ({"repo": "../etc/passwd"}, 422, "invalid_request"),
        ({"hotkey": "5F" + "x" * 46}, 400, "hotkey_malformed"),
        ({"more": 1}, 422, "invalid_request"),
        ({"body": b"[" * 1000}, 413, "input_too_large"),
        ({"body": b'{"netuid":1,"netuid":2}'}, 400, "malformed_input"),
        ({"body": b"\xff"}, 400, "malformed_input"),
    ],
)
def test_bad_submissions_are_refused_by_name(hand_in, fields, status, code):
    answer = hand_in(OPERATOR, **fields)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_an_unknown_id_is_404_and_a_malformed_one_422(door):
    assert door.get(f"{PATH}/sha256:{'0' * 64}").status_code == 404
    assert door.get(f"{PATH}/1").status_code == 422


def test_pages_go_through_all_of_them_once(services, door):
    for number in range(7):
        services.entries.accept(
            Claimed(GENESIS, NETUID, hotkey(ADA).address, f"a/{number}", REVISION, number, 0), "chain"
        )
    services.entries.accept(Claimed(GENESIS, NETUID, hotkey(BOB).address, "b/0", REVISION, 9, 0), "chain")
    services.entries.accept(Claimed(GENESIS, NETUID + 1, hotkey(BOB).address, "b/0", REVISION, 9, 0), "chain")
    seen, after = [], 0
    while after is not None:
        page = door.get(f"{PATH}?netuid={NETUID}&limit=3&after={after}").json()
        assert len(page["submissions"]) <= 3
        seen += [found["repo"] for found in page["submissions"]]
        after = page["next"]
    assert seen == [*(f"a/{number}" for number in range(7)), "b/0"]
    only = door.get(f"{PATH}?netuid={NETUID}&hotkey={hotkey(BOB).address}").json()
    assert [found["repo"] for found in only["submissions"]] == ["b/0"]
    assert door.get(f"{PATH}?netuid={NETUID}&state=judged").json()["submissions"] == []
    assert door.get(PATH).json()["code"] == "invalid_request"
