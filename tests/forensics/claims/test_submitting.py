"""A service that answers wrongly gains nothing: its receipt must be for what was handed in, under the pinned key."""

from __future__ import annotations

import json

import httpx2
import pytest

from attest.errors import AttestError, ContextMismatch
from attest.lineage import descend
from forensics.claims.remote import Remote
from forensics.claims.submitting import read_unsigned, submit, unsigned_json
from forensics.errors import BadInput, Unavailable, UsageError, document
from forensics.forks import Case, Forks
from forensics.trust import Pins
from tests.attest import material
from tests.forensics.attesting import GENESIS, claim_of, context, pair, signed, signer

ADA = pair("ada")


@pytest.fixture
def database_url(tmp_path):
    return f"sqlite:///{tmp_path / 'forensics.db'}"


@pytest.fixture
def remote(client, clock, monkeypatch):
    """The service without a network; requests are signed at its time."""
    monkeypatch.setattr("time.time_ns", lambda: clock.nanoseconds)
    return Remote("http://service", client=client)


def hand_in(remote, envelope, pins):
    return submit(remote, envelope, pair=ADA, pins=pins, genesis=GENESIS, netuid=120)


def test_the_receipt_is_for_what_was_handed_in(remote, tmp_path):
    envelope = signed(claim_of(ADA), signer(ADA))
    done = hand_in(remote, envelope, Pins(tmp_path / "trust"))
    assert (done.envelope, done.pinned) == (envelope, True)


def test_a_claim_known_with_another_signature_comes_back_with_the_one_logged(remote, tmp_path, clock):
    pins = Pins(tmp_path / "trust")
    statement = claim_of(ADA)
    first = hand_in(remote, signed(statement, signer(ADA)), pins)
    clock.forward(1)
    again = hand_in(remote, signed(statement, signer(ADA)), pins)
    assert (again.envelope, again.pinned) == (first.envelope, False)


def test_a_long_statement_comes_back_whole_too(remote, tmp_path, clock):
    pins = Pins(tmp_path / "trust")
    statement = descend(context(ADA), material.tensors("p", count=300), material.tensors("q", count=300))
    first = hand_in(remote, signed(statement, signer(ADA)), pins)
    clock.forward(1)
    assert hand_in(remote, signed(statement, signer(ADA)), pins).envelope == first.envelope


def test_a_service_for_another_place_is_not_asked(remote, tmp_path):
    envelope = signed(claim_of(ADA), signer(ADA))
    with pytest.raises(ContextMismatch):
        submit(remote, envelope, pair=ADA, pins=Pins(tmp_path), genesis=GENESIS, netuid=7)


def lying(services, **answers):
    """A service that answers as it likes."""
    identity = {"hotkey": services.hotkey, "log_key": str(services.log_key), "genesis": GENESIS, "netuid": None}

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path == "/v1/service":
            return httpx2.Response(200, content=json.dumps(identity))
        status, content = answers["post"] if request.method == "POST" else answers["get"]
        return httpx2.Response(status, content=content)

    return Remote("http://liar", client=httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://liar"))


def test_a_receipt_for_something_else_is_refused(services, tmp_path):
    mine, other = claim_of(ADA), claim_of(ADA, "other")
    received = services.attestations.receive(signed(other, signer(ADA)).to_json(), submitted_by="x")
    remote = lying(services, post=(201, json.dumps({"receipt": received.receipt.decode()})))
    with pytest.raises(BadInput, match="another statement"):
        hand_in(remote, signed(mine, signer(ADA)), Pins(tmp_path))


@pytest.mark.parametrize(
    ("post", "error"),
    [
        ((201, "{}"), BadInput),
        ((201, '{"receipt":"c2sp.org/tlog-proof@v1\\n"}'), AttestError),
        ((201, "[]"), BadInput),
        ((201, "<html>"), BadInput),
        ((302, ""), BadInput),
        ((422, '{"code":"x","detail":"\\u001b[31mred"}'), BadInput),
        ((503, "busy"), Unavailable),
    ],
)
def test_answers_that_prove_nothing_are_refused(services, tmp_path, post, error):
    with pytest.raises(error):
        hand_in(lying(services, post=post), signed(claim_of(ADA), signer(ADA)), Pins(tmp_path))


@pytest.mark.parametrize("name", ["hotkey", "log_key", "genesis", "netuid"])
@pytest.mark.parametrize("value", [[], {}, True, 1.5, -1])
def test_an_identity_with_a_member_of_another_kind_is_refused(name, value):
    told = {"hotkey": "5x", "log_key": "x", "genesis": "0x", "netuid": None} | {name: value}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=json.dumps(told)))
    remote = Remote("http://liar", client=httpx2.Client(transport=transport, base_url="http://liar"))
    with pytest.raises((BadInput, AttestError), match=r"/v1/service|note key"):
        remote.identity()


@pytest.mark.parametrize("path", [None, 0, "", [0], [None], {"a": 1}, ["%"]])
def test_a_proof_of_another_kind_is_refused(path):
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=json.dumps({"path": path})))
    with pytest.raises(BadInput):
        Remote("http://liar", client=httpx2.Client(transport=transport, base_url="http://liar")).consistency(1, 2)


def test_a_log_this_home_holds_a_fork_of_gets_nothing(remote, services, tmp_path):
    forks = Forks(tmp_path / "evidence")
    forks.keep(Case.FORK, services.log_key, [b"one", b"two"])
    with pytest.raises(BadInput, match="two histories"):
        hand_in(remote, signed(claim_of(ADA), signer(ADA)), Pins(tmp_path / "trust", forks=forks))


def test_a_service_that_is_not_there_is_unavailable():
    with pytest.raises(Unavailable):
        Remote("http://127.0.0.1:9").identity()


@pytest.mark.parametrize("url", ["", "service", "ftp://service", "http://a b"])
def test_what_is_no_url_is_named(url):
    with pytest.raises(UsageError):
        Remote(url)


def test_an_unsigned_statement_travels_whole():
    statement = claim_of(ADA)
    envelope = read_unsigned(unsigned_json(statement.payload()), where="file")
    assert (envelope.payload, envelope.signatures) == (statement.payload(), ())
    again = signed(statement, signer(ADA))
    assert read_unsigned(again.to_json(), where="file") == again


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1:1",
        "http://user:hunter2@127.0.0.1:none",
        "http://user:hunter2/@x@127.0.0.1:1",
        "ftp://user:hunter2@127.0.0.1",
        "user:hunter2@127.0.0.1",
    ],
)
def test_a_password_in_a_url_is_not_shown(url):
    with pytest.raises((Unavailable, UsageError)) as caught:
        Remote(url).checkpoint()
    assert "hunter2" not in json.dumps(document(caught.value))


def test_a_password_in_a_url_is_not_shown_with_what_a_service_refused():
    def refuse(_request):
        return httpx2.Response(404, json={"code": "no", "detail": "none"})

    url = "http://user:hunter2@service"
    client = httpx2.Client(transport=httpx2.MockTransport(refuse), base_url=url)
    with client, pytest.raises(BadInput, match="http://service/v1") as caught:
        Remote(url, client=client).checkpoint()
    assert "hunter2" not in json.dumps(document(caught.value))
