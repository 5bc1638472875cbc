"""Asking what a fingerprint is: through the door, in a child process, a few at once."""

from __future__ import annotations

import json
import threading

import pytest
from bittensor import http_auth

from fingerprint.file import dumps
from forensics.api.asking import Asking, Question
from forensics.api.problems import Problem
from forensics.jobs.sandbox import ChildDied, ChildFailed
from forensics.known.claim import Claim, Role
from forensics.known.registry import Registry
from tests.forensics.attesting import hotkey, pair

ADA, BOB = pair("ada"), pair("bob")
PATH = "/v1/identify"


@pytest.fixture
def ask(services, client):
    def ask(body, *, who=ADA, kind="application/octet-stream", query=""):
        path = PATH + query
        parts = {"method": "POST", "path": path, "body": body, "receiver_ss58": services.hotkey}
        signed = http_auth.sign(who, nonce_ns=services.clock.nanoseconds, **parts)
        services.clock.forward(0.001)
        return client.post(path, content=body, headers=signed | {"content-type": kind})

    return ask


@pytest.fixture
def known(services, ada, bob):
    registry = Registry(services.engine, services.blobs, clock=services.clock)
    registry.add(ada, Claim(Role.SUBMISSION, hotkey=hotkey(BOB).address, block=7))
    registry.add(bob, Claim(Role.BASE, label="base"))


@pytest.mark.usefixtures("known")
def test_a_copy_is_recognised_and_no_path_is_shown(ask, ada, noisy_ada):
    answer = ask(dumps(noisy_ada))
    found = answer.json()
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert (found["finding"], found["matches"][0]["model"]) == (True, ada.content_root)
    assert found["matches"][0]["comparison"]["copy"] is True
    assert found["searched"] == 2
    assert "path" not in answer.text


@pytest.mark.usefixtures("known")
def test_ones_own_claim_accuses_nobody_and_a_known_model_may_be_named(ask, ada, bob):
    body = json.dumps({"model": ada.content_root}).encode()
    found = ask(body, who=BOB, kind="application/json", query="?top=1").json()
    assert (found["candidate"], found["finding"]) == (ada.content_root, False)
    assert [match["model"] for match in found["matches"]] == [bob.content_root]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("body", "kind", "query", "status", "code"),
    [
        (b"", "application/octet-stream", "", 422, "fingerprint_refused"),
        (b"\xff" * 1000, "application/octet-stream", "", 422, "fingerprint_refused"),
        (b"{}", "application/json", "", 422, "invalid_request"),
        (json.dumps({"model": "sha256:" + "0" * 64}).encode(), "application/json", "", 404, "not_known"),
        (b"", "application/octet-stream", "?top=0", 422, "invalid_request"),
    ],
)
def test_what_is_no_fingerprint_is_refused(ask, body, kind, query, status, code):
    answer = ask(body, kind=kind, query=query)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_unsigned_is_refused(client):
    assert client.post(PATH, content=b"x").status_code == 401


QUESTION = Question(b"", None, 5, "5F", None)


def test_few_at_once_few_wait_and_the_rest_are_told_when_to_come_back():
    going, inside = threading.Event(), threading.Semaphore(0)
    running, most = 0, 0
    lock = threading.Lock()

    def run(function, **arguments):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        inside.release()
        going.wait(20)
        with lock:
            running -= 1
        return {"ok": True}, b""

    asking = Asking(run, {}, limit=1, at_once=2, waiting=1)
    threads = [threading.Thread(target=asking.ask, args=(QUESTION,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    inside.acquire()
    inside.acquire()
    while asking._seats._value:
        pass
    with pytest.raises(Problem) as refused:
        asking.ask(QUESTION)
    assert (refused.value.status, refused.value.code) == (429, "identify_busy")
    assert int(refused.value.headers["Retry-After"]) > 0
    going.set()
    for thread in threads:
        thread.join(20)
    assert most == 2
    assert asking.ask(QUESTION) == {"ok": True}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ChildDied("was killed"), 503, "identify_failed"),
        (ChildFailed("StoreUnavailable", "/secret/path"), 503, "identify_failed"),
        (ChildFailed("NotKnown", "no"), 404, "not_known"),
        (ChildFailed("FingerprintFileError", "body: damaged"), 422, "fingerprint_refused"),
    ],
)
def test_how_a_child_ended_is_told_apart(error, status, code):
    def run(function, **arguments):
        raise error

    asking = Asking(run, {}, limit=1, at_once=1, waiting=0)
    for _ in range(2):  # seats are given back
        with pytest.raises(Problem) as refused:
            asking.ask(QUESTION)
        assert (refused.value.status, refused.value.code) == (status, code)
        assert "/secret" not in refused.value.detail
