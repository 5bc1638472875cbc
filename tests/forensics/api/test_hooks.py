"""Webhooks through the door: made by who is registered, seen by their owner alone."""

from __future__ import annotations

import json

import pytest
from bittensor import http_auth
from sqlalchemy import insert

from forensics.store.attestation import AnswerRow
from forensics.store.chain import NeuronRow
from forensics.store.engine import reading, writing
from tests.forensics.attesting import GENESIS, NETUID, hotkey, pair

ADA, BOB = pair("ada"), pair("bob", crypto_type=0)
PATH = "/v1/hooks"
WISH = {"netuid": NETUID, "url": "https://validator.example/verdicts"}


@pytest.fixture
def registered(services):
    common = {"genesis": GENESIS, "netuid": NETUID, "coldkey": "c", "registered": 1, "since": 1, "permit": False}
    with writing(services.engine) as session:
        for uid, who in enumerate((ADA, BOB)):
            session.execute(insert(NeuronRow), [common | {"uid": uid, "hotkey": hotkey(who).address}])


@pytest.fixture
def ask(services, client):
    def ask(method, path=PATH, *, who=ADA, body=None, **headers):
        content = b"" if body is None else json.dumps(body).encode()
        parts = {"method": method, "path": path, "body": content, "receiver_ss58": services.hotkey}
        signed = http_auth.sign(who, nonce_ns=services.clock.nanoseconds, **parts)
        services.clock.forward(0.001)
        return client.request(method, path, content=content, headers=signed | headers)

    return ask


@pytest.mark.usefixtures("registered")
def test_made_seen_and_deleted_by_its_owner(ask):
    made = ask("POST", body=WISH)
    assert made.status_code == 201
    assert "secret" not in made.text
    path = f"{PATH}/{made.json()['id']}"
    secret = ask("GET", f"{path}/secret")
    assert secret.json()["secret"].startswith("whsec_")
    assert secret.headers["cache-control"] == "no-store"
    assert ask("GET").json()["hooks"] == [made.json()]
    assert ask("GET", who=BOB).json()["hooks"] == []
    for method, where in (("GET", f"{path}/secret"), ("DELETE", path)):
        refused = ask(method, where, who=BOB)
        assert (refused.status_code, refused.json()["code"]) == (404, "hook_unknown")
    assert ask("DELETE", path).status_code == 204
    assert ask("GET").json()["hooks"] == []
    assert ask("GET", f"{path}/secret").status_code == 404


@pytest.mark.usefixtures("registered")
def test_the_same_key_makes_one_and_no_secret_is_remembered_with_it(ask, services):
    first, again = (ask("POST", body=WISH, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json() == again.json()
    assert len(ask("GET").json()["hooks"]) == 1
    secret = ask("GET", f"{PATH}/{first.json()['id']}/secret").json()["secret"]
    with reading(services.engine) as session:
        assert all(secret.encode() not in row.body for row in session.query(AnswerRow))


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"url": "http://validator.example/"}, 422, "url_refused"),
        ({"url": "https://169.254.169.254/latest/meta-data"}, 422, "url_refused"),
        ({"netuid": 5}, 422, "netuid_not_served"),
        ({"only": ["x"]}, 400, "hotkey_malformed"),
        ({"only": ["x"] * 65}, 422, "invalid_request"),
        ({"secret": "whsec_mine"}, 422, "invalid_request"),
    ],
)
def test_wishes_that_are_not_granted(ask, change, status, code):
    answer = ask("POST", body=WISH | change)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_who_is_not_registered_makes_none(ask, client):
    answer = ask("POST", body=WISH)
    assert (answer.status_code, answer.json()["code"]) == (403, "role_missing")
    assert client.post(PATH, json=WISH).status_code == 401
    assert client.get(PATH).status_code == 401


@pytest.mark.usefixtures("registered")
def test_a_hotkey_has_few(ask):
    answers = [ask("POST", body=WISH) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [201] * 5 + [409]
    assert answers[-1].json()["code"] == "too_many_hooks"
