"""The client against the service itself: what is published there is read here, through a socket."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from forensics.client import Code, Reading, Scored, State, VerdictClient
from forensics.keys import Keys
from forensics.place import GENESIS
from forensics.policy import default
from forensics.settings import load
from forensics.snapshots import Publisher, Shelf
from forensics.verdicts import Verdicts
from tests.forensics.client.world import NETUID, address, revision
from tests.forensics.serving import served


@pytest.fixture
def service(tmp_path: Path):
    settings = load(home=tmp_path / "service", genesis=GENESIS["finney"])
    with served(settings) as (services, url):
        publisher = Publisher(
            services.engine,
            services.log,
            Keys.of(settings).service(),
            verdicts=Verdicts(services.engine, services.blobs, policy=default()),
            policy=default(),
            network="finney",
            genesis=services.genesis,
        )
        yield services, url, publisher


def seats(*names: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(uid=uid, hotkey=address(name), coldkey="") for uid, name in enumerate(names)]


def looked_again(client: VerdictClient) -> Reading:
    """The first reading after the service has looked for something new, which it does once a second."""
    deadline = time.monotonic() + 30
    while (found := client.read()).state is State.NEUTRAL and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def test_published_read_confirmed_logged_and_remembered(service, tmp_path):
    services, url, publisher = service
    client = VerdictClient(url, str(services.log_key), netuid=NETUID, cache=tmp_path / "cache", tries=1)
    before = client.read()
    assert (before.state, before.problems[0].code) == (State.NEUTRAL, Code.ERROR_STATUS)
    stored = publisher.publish(NETUID, 100, seats("ada", "bob"))
    first = looked_again(client)
    assert (first.state, first.problems) == (State.FRESH, ())
    assert first.snapshot is not None
    assert (first.snapshot.digest, first.snapshot.raw) == (stored.digest, stored.envelope)
    (row,) = first.apply([Scored(address("ada"), revision("ada"), 0.5)]).rows
    assert (row.adjusted, row.known) == (0.5, False)  # registered, and nothing committed
    assert client.read().state is State.FRESH
    receipt = Shelf(services.engine, services.genesis, log=services.log).receipt(stored)
    assert receipt is not None
    assert client.check_logged(receipt) == stored.leaf
    other = VerdictClient(url, str(services.log_key), netuid=NETUID, cache=tmp_path / "cache")
    assert other.offline().state is State.CACHED


def test_the_services_etag_saves_the_body(service, tmp_path, monkeypatch):
    services, url, publisher = service
    publisher.publish(NETUID, 100, seats("ada"))
    client = VerdictClient(url, str(services.log_key), netuid=NETUID)
    client.read()
    monkeypatch.setattr("forensics.client.core.verify", lambda *_: pytest.fail("a 304 has no body to verify"))
    assert client.read().state is State.FRESH
