"""Verdict reads, asked in front of the application and through its own routes: both must say the same."""

from __future__ import annotations

import gzip
import json

import pytest
from fastapi.testclient import TestClient

from attest import envelope as dsse
from attest.keys import ss58
from attest.statement import parse
from benchmarks.load import world
from forensics.api.app import create_app
from forensics.api.server import application
from forensics.keys import Keys
from tests.forensics.attesting import NETUID, PLACE

PATH = f"/v1/netuids/{NETUID}/verdicts"
ADA = world.hotkey_of(0)


@pytest.fixture(params=[application, create_app], ids=["in front", "routes"])
def door(request, services):
    with TestClient(request.param(services), raise_server_exceptions=False) as client:
        client.headers["accept-encoding"] = "identity"
        yield client


@pytest.fixture
def signer(services, tmp_path):
    return Keys(tmp_path / "service" / "keys").service()


@pytest.fixture
def publish(services, signer, clock):
    def publish(sequence=1, uids=5):
        return world.publish(services.engine, signer, uids=uids, sequence=sequence, place=PLACE, clock=clock)

    return publish


def test_the_stored_bytes_are_served_and_verify(door, publish, signer):
    envelope = publish()
    answer = door.get(PATH)
    assert (answer.status_code, answer.content) == (200, envelope)
    assert answer.headers["content-type"] == "application/json"
    assert "max-age" in answer.headers["cache-control"]
    verified = dsse.verify(dsse.read(answer.content), [signer.verifier])
    assert len(parse(verified.payload).predicate.verdicts) == 5


def test_who_has_it_is_told_so(door, publish):
    publish()
    first = door.get(PATH)
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*", f"{tag},{tag}"):
        again = door.get(PATH, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    for other in ('"other"', tag[:-2] + '"', ""):
        assert door.get(PATH, headers={"If-None-Match": other}).status_code == 200


def test_the_head_of_an_answer_has_no_body(door, publish):
    envelope = publish()
    answer = door.head(PATH)
    assert (answer.status_code, int(answer.headers["content-length"])) == (200, len(envelope))
    assert answer.content == b""


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5", "deflate, gzip;q=1.0, *;q=0.5", "*"])
def test_compressed_for_those_who_take_it(door, publish, accepted):
    envelope = publish()
    with door.stream("GET", PATH, headers={"Accept-Encoding": accepted}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"
    assert gzip.decompress(raw) == envelope
    assert answer.headers["etag"] != door.get(PATH).headers["etag"]
    for tag in (answer.headers["etag"], door.get(PATH).headers["etag"]):
        known = {"Accept-Encoding": accepted, "If-None-Match": tag}
        assert door.get(PATH, headers=known).status_code == 304


@pytest.mark.parametrize("accepted", ["identity", "gzip;q=0", "br", "gzip;q=0.0, br", "xgzip"])
def test_not_compressed_for_those_who_do_not(door, publish, accepted):
    envelope = publish()
    answer = door.get(PATH, headers={"Accept-Encoding": accepted})
    assert answer.content == envelope
    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "accept-encoding"


def test_a_single_verdict_is_the_snapshots_own_and_says_which(door, publish):
    envelope = publish()
    payload = dsse.read(envelope).payload
    whole = json.loads(payload)["predicate"]
    for verdict in whole["verdicts"]:
        answer = door.get(f"{PATH}/{verdict['hotkey']}")
        found = answer.json()
        assert found["verdict"] == verdict
        assert found["snapshot"]["digest"] == dsse.read(envelope).digest
        assert (found["sequence"], found["expires_at"]) == (1, whole["expires_at"])
        known = {"If-None-Match": answer.headers["etag"]}
        assert door.get(f"{PATH}/{verdict['hotkey']}", headers=known).status_code == 304


def test_one_account_under_another_prefix_is_the_same_account(door, publish):
    publish()
    other = ss58.encode(ss58.account_id(ADA), prefix=0)
    assert door.get(f"{PATH}/{other}").content == door.get(f"{PATH}/{ADA}").content


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{PATH}/{world.hotkey_of(77)}", 404, "hotkey_unknown"),
        (f"{PATH}/{ADA[:-1]}X", 400, "hotkey_malformed"),
        (f"{PATH}/0OIl", 400, "hotkey_malformed"),
        (f"{PATH}/{'1' * 65}", 422, "invalid_request"),
        ("/v1/netuids/121/verdicts", 404, "snapshot_unknown"),
        ("/v1/netuids/65536/verdicts", 422, "invalid_request"),
        ("/v1/netuids/-1/verdicts", 422, "invalid_request"),
        ("/v1/netuids/x/verdicts", 422, "invalid_request"),
    ],
)
def test_what_is_not_there_is_a_problem(door, publish, path, status, code):
    publish()
    answer = door.get(path)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["status"] == answer.status_code


def test_before_anything_was_published(door):
    answer = door.get(PATH)
    assert (answer.status_code, answer.json()["code"]) == (404, "snapshot_unknown")


def test_verdicts_are_read_and_nothing_else(door, publish):
    publish()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = door.request(method, PATH)
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert "GET" in answer.headers["allow"]
