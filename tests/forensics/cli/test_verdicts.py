"""What a validator would read, from the home itself and from a service on loopback."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from attest.keys.ed25519 import Ed25519Signer
from benchmarks.load import world
from forensics.cli.main import main
from forensics.keys import Keys
from forensics.place import GENESIS, Place, now
from forensics.settings import load
from tests.forensics.serving import served

HERE = Place(GENESIS["finney"], 120)


@pytest.fixture
def publish(own_home):
    def publish(services, *, signer=None, sequence=1, clock=now):
        keys = Keys.of(load())
        world.publish(
            services.engine,
            signer or keys.service(),
            uids=5,
            sequence=sequence,
            place=HERE,
            clock=clock,
            origin=keys.service_public().name,
        )

    return publish


@pytest.fixture
def service(own_home):
    with served(load()) as (services, url):
        yield services, url


def run(capsys, *arguments):
    code = main(["verdicts", "--netuid", "120", *arguments])
    return code, capsys.readouterr()


@pytest.mark.parametrize("remote", [False, True], ids=["home", "service"])
def test_the_table_and_the_document(service, publish, capsys, remote):
    services, url = service
    publish(services)
    where = ["--url", url] if remote else []
    code, said = run(capsys, *where)
    assert code == 0
    lines = said.out.splitlines()
    assert "subnet 120" in lines[0]
    assert "fresh" in lines[0]
    assert len(lines) == 7
    assert any("penalised" in line and f"copy.perturbed of {world.hotkey_of(3)}" in line for line in lines)
    code, said = run(capsys, *where, "--json")
    document = json.loads(said.out)
    assert (code, document["sequence"], document["state"]) == (0, 1, "fresh")
    assert [verdict["hotkey"] for verdict in document["verdicts"]] == [world.hotkey_of(uid) for uid in range(5)]
    assert "context" not in document


@pytest.mark.parametrize("remote", [False, True], ids=["home", "service"])
def test_before_anything_was_published_there_is_nothing_to_go_by(service, capsys, remote):
    code, said = run(capsys, *(["--url", service[1]] if remote else []))
    assert code == 4
    assert said.out == ""


@pytest.mark.parametrize("remote", [False, True], ids=["home", "service"])
def test_what_somebody_else_signed_is_not_believed(service, publish, capsys, remote):
    services, url = service
    publish(services, signer=Ed25519Signer(b"\3" * 32))
    code, said = run(capsys, *(["--url", url] if remote else []))
    assert code == 3
    assert "wrong_key" in said.err


def test_an_expired_one_is_shown_here_and_counts_nowhere(service, publish, capsys):
    services, url = service

    def yesterday() -> datetime:
        return now() - timedelta(days=1)

    publish(services, clock=yesterday)
    code, said = run(capsys)
    assert (code, "expired" in said.out) == (0, True)
    assert "every multiplier for 1" in said.err
    assert run(capsys, "--url", url)[0] == 4


def test_nobody_there(capsys):
    assert run(capsys, "--url", "http://127.0.0.1:9")[0] == 4


def test_without_a_subnet_it_asks_for_one(capsys):
    assert main(["verdicts"]) == 2
    capsys.readouterr()
