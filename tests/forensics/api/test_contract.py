"""The OpenAPI description as a contract: requests made from it, good and bad, and no answer above 499.

Schemathesis makes the requests; the seed is fixed, so a failure can be had again. Writes are signed where that is
asked for, so that what is behind the signature is reached as well.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import schemathesis
from bittensor import http_auth
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from sqlalchemy import insert

from attest.log.note import open_checkpoint
from benchmarks.load import world
from benchmarks.postgres import database
from fingerprint.errors import FingerprintError
from forensics.api.app import create_app, describe
from forensics.api.asking import Asking
from forensics.api.rates import Buckets, Rate
from forensics.api.roles import Role
from forensics.api.services import Services
from forensics.errors import ForensicsError
from forensics.jobs.sandbox import ChildFailed
from forensics.keys import Keys
from forensics.settings import load
from forensics.store.chain import NeuronRow
from forensics.store.engine import connect, writing
from forensics.store.migrate import ensure
from tests.forensics.attesting import GENESIS, NETUID, PLACE, Clock, claim_of, hotkey, pair, signed, signer

ADA = pair("ada")
SEED, EXAMPLES = 20261130, 8
SCHEMA = schemathesis.openapi.from_dict(describe())
OPERATIONS = {f"{op.ok().method.upper()} {op.ok().path}": op.ok() for op in SCHEMA.get_all_operations()}
PATHS = ["/", "/v1", "/v1/", "/v1/none", "/healthz/", "/v1/hooks/x", "/docs", "/openapi.json", "//", "/%00"]
VISIBLE = st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?%\\")
QUICK = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request, tmp_path_factory):
    """Of an empty database of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('contract')}/forensics.db"
        return
    with database(request.getfixturevalue("postgres_cluster")) as found:
        yield found.replace("postgresql://", "postgresql+psycopg://")


def here(function, **arguments):
    """In the place of a child process, which takes seconds to start; ``test_identify`` has the real one."""
    try:
        return function(**arguments)
    except (ForensicsError, FingerprintError) as error:
        raise ChildFailed(type(error).__name__, str(error)) from None


def places(chosen, url):
    return {"database": url, "blobs": chosen.blobs_url, "cache": str(chosen.home / "cache")}


@pytest.fixture(scope="module")
def door(url, tmp_path_factory):
    """A service on a real database with something in it, and nobody's limits."""
    home = tmp_path_factory.mktemp("home")
    chosen = load(home=home, genesis=GENESIS, netuid=NETUID, address_rate=0, hotkey_rate=0, admins=hotkey(ADA).address)
    engine = connect(url)
    ensure(engine)
    services = replace(Services.open(chosen, engine, clock=Clock()), asking=Asking(here, places(chosen, url), limit=4))
    world.publish(engine, Keys.of(chosen).service(), uids=3, place=PLACE, clock=services.clock)
    services.attestations.receive(signed(claim_of(ADA), signer(ADA)).to_json(), submitted_by=hotkey(ADA).address)
    open_checkpoint(services.log.checkpoint(), log=services.log_key)
    neuron = {"genesis": GENESIS, "netuid": NETUID, "uid": 0, "coldkey": "c", "registered": 1, "since": 1}
    with writing(engine) as session:
        session.execute(insert(NeuronRow), [neuron | {"hotkey": hotkey(ADA).address, "permit": True}])
    with TestClient(create_app(services), raise_server_exceptions=False) as client:
        yield services, client
    engine.dispose()


def test_the_admin_of_this_test_is_one(door):
    assert door[0].roles.of_hotkey(hotkey(ADA).address) is Role.ADMIN
    assert isinstance(door[0].addresses, Buckets)
    assert door[0].addresses._rate == Rate(0.0, 0.0)


def send(door, case, *, sign):
    """Send a made-up request as it is, or signed by a hotkey that may do everything."""
    services, client = door
    request = client.build_request(**asked(case))
    body = request.read()
    headers = {name: value for name, value in request.headers.items() if not name.startswith("x-bittensor")}
    if sign:
        target = request.url.raw_path.decode()
        parts = {"method": request.method, "path": target, "body": body, "receiver_ss58": services.hotkey}
        headers |= http_auth.sign(ADA, nonce_ns=services.clock.nanoseconds, **parts)
        services.clock.forward(0.001)
    return client.request(request.method, request.url, content=body, headers=headers)


def asked(case):
    """What ``httpx`` needs of a case."""
    kwargs = case.as_transport_kwargs(base_url="http://testserver")
    body = {k: kwargs[k] for k in ("json", "data", "content") if kwargs.get(k) is not None}
    if "data" in body and isinstance(body["data"], bytes | str):
        body["content"] = body.pop("data")
    return {
        "method": kwargs["method"],
        "url": kwargs["url"],
        "params": kwargs.get("params"),
        "headers": {k: v for k, v in (kwargs.get("headers") or {}).items() if isinstance(v, str)},
        **body,
    }


def check(answer, operation):
    """No failure of ours; every refusal a problem with a code."""
    assert answer.status_code < 500 or answer.status_code == 503, (operation, answer.text[:500])
    if answer.status_code == 503:  # a service without its sealing key says so
        assert answer.json()["code"] in {"seeds_unavailable", "identify_failed"}, answer.text
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json", (operation, answer.text[:200])
        assert answer.json()["code"], operation
        assert "Traceback" not in answer.text


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
@pytest.mark.parametrize("sign", [True, False], ids=["signed", "plain"])
def test_no_request_makes_the_service_fail(door, operation, sign):
    found = OPERATIONS[operation]
    good = found.as_strategy(generation_mode=GenerationMode.POSITIVE)
    bad = found.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    made = good | bad if found.body or found.query or found.path_parameters else good

    @seed(SEED)
    @QUICK
    @given(case=made)
    def run(case):
        check(send(door, case, sign=sign), operation)

    run()


@seed(SEED)
@settings(QUICK, max_examples=60)
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"]),
    path=st.sampled_from(
        ["/", "/v1", "/v1/", "/v1/none", "/healthz/", "/v1/hooks/x", "/docs", "/openapi.json", "//", "/%00"]
    )
    | st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?%\\"), max_size=40).map(
        "/".__add__
    ),
    body=st.binary(max_size=200) | st.just(json.dumps({"a": [1] * 30}).encode()),
)
def test_whatever_is_asked_the_answer_is_a_problem_or_an_answer(door, method, path, body):
    _, client = door
    answer = client.request(method, f"http://testserver{path}", content=body)
    check(answer, f"{method} {path}")


def test_the_description_is_valid_and_complete():
    SCHEMA.validate()
    assert len(OPERATIONS) >= 20
    for name in ("POST /v1/submissions", "GET /v1/netuids/{netuid}/verdicts", "POST /v1/identify", "GET /metrics"):
        assert name in OPERATIONS
