"""The door to hidden items: who gets what, and when."""

from __future__ import annotations

import dataclasses

import pytest
from bittensor import http_auth
from fastapi.testclient import TestClient

from attest.seeds.epoch_file import EpochFile
from forensics.api.app import create_app
from forensics.epochs import fetches
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.machine import State
from forensics.epochs.opening import seal_key
from forensics.epochs.rotation import Rotation
from forensics.epochs.shelf import Shelf
from forensics.settings import load
from tests.forensics.attesting import PLACE, hotkey, pair
from tests.forensics.epochs.simulated import GENERATOR, PLAN, SEAL_KEY, START, SimulatedChain, round_in, world_of

ADA, MALLORY = pair("ada"), pair("mallory")
WHERE = f"netuid={PLACE.netuid}&competition={PLACE.competition}"
SEEDS = f"/v1/epochs/0/seeds?{WHERE}"


@pytest.fixture
def door(services, tmp_path, monkeypatch):
    """An epoch at a door, and the time in one's hand."""
    folder = tmp_path / "world"
    folder.mkdir()
    chain = SimulatedChain(folder)
    monkeypatch.setattr(chain, "validators", lambda netuid, block: [hotkey(ADA).address])
    rotation = Rotation(Shelf(services.engine, services.log, PLACE), world_of(chain), chain)
    schedule = Schedule(round_in(1200), 100, 50)
    commit(rotation.shelf, rotation.world, chain.moment(), plan=PLAN, generator=GENERATOR, schedule=schedule, count=1)
    services = dataclasses.replace(services, seal_key=lambda: SEAL_KEY)
    with TestClient(create_app(services), raise_server_exceptions=False) as client:
        yield services, client, rotation, chain


def at(door, seconds):
    _, _, rotation, chain = door
    chain.time = START + seconds
    rotation.advance()
    return rotation.shelf.epoch(0).state


def ask(door, who):
    services, client, *_ = door
    parts = {"method": "GET", "path": SEEDS, "receiver_ss58": services.hotkey}
    headers = http_auth.sign(who, nonce_ns=services.clock.nanoseconds, **parts)
    services.clock.forward(0.001)
    return client.get(SEEDS, headers=headers)


def test_an_open_epoch_is_given_to_its_validators_alone_and_on_record(door):
    services, client, _, _ = door
    assert ask(door, ADA).status_code == 503
    at(door, 0)
    assert at(door, 1212) is State.OPEN
    assert client.get(SEEDS).status_code == 401
    refused = ask(door, MALLORY)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_in_roster")
    answer = ask(door, ADA)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert len(answer.json()["items"]) == 13
    assert {name for item in answer.json()["items"] for name in item} == {"environment", "id", "key"}
    assert [fetch.hotkey for fetch in fetches.of(services.engine, 1)] == [hotkey(ADA).address]

    assert at(door, 1362) is State.REVEALED
    everyone = client.get(SEEDS).json()
    assert {item["id"] for item in answer.json()["items"]} == {item["id"] for item in everyone["items"]}
    assert {item["validator"] for item in everyone["items"]} == {None, hotkey(ADA).address}


def test_where_an_epoch_stands_and_its_file_are_public(door):
    _, client, rotation, _ = door
    assert client.get(f"/v1/epochs/current?{WHERE}").json()["state"] == "committed"
    at(door, 0)
    found = client.get(f"/v1/epochs/current?{WHERE}").json()
    assert (found["epoch"], found["state"]) == (0, "anchored")
    file = client.get(f"/v1/epochs/0?{WHERE}").content
    assert EpochFile.parse(file).log == str(rotation.shelf.log.key)
    assert b"secret" not in file


def test_a_service_without_its_sealing_key_says_so_and_nothing_else(door, monkeypatch):
    services, *_ = door
    at(door, 0)
    at(door, 1212)
    locked = dataclasses.replace(services, seal_key=seal_key(load(home="/nonexistent")))
    with TestClient(create_app(locked), raise_server_exceptions=False) as client:
        answer = ask((locked, client, *door[2:]), ADA)
    assert (answer.status_code, answer.json()["code"]) == (503, "seeds_unavailable")


def test_unknown_epochs_and_subnets(door):
    _, client, *_ = door
    for path in (f"/v1/epochs/9?{WHERE}", f"/v1/epochs/9/seeds?{WHERE}", "/v1/epochs/current?netuid=9"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "epoch_unknown")
    assert client.get("/v1/epochs/x").status_code == 422
