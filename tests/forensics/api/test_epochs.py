"""The door to hidden items: who gets what, and when."""

from __future__ import annotations

import dataclasses

import pytest
from bittensor import http_auth
from fastapi.testclient import TestClient

from attest.seeds.epoch_file import EpochFile
from forensics.api.app import create_app
from forensics.epochs import fetches
from forensics.epochs.access import Access
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.machine import State
from forensics.epochs.opening import seal_key
from forensics.epochs.rotation import Rotation
from forensics.epochs.shelf import Shelf
from forensics.results.store import ResultStore
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


@pytest.mark.parametrize("key", ["", "08" * 32])
def test_a_service_without_its_sealing_key_says_so_and_nothing_else(door, key):
    services, *_ = door
    at(door, 0)
    at(door, 1212)
    locked = dataclasses.replace(services, seal_key=seal_key(load(home="/nonexistent", seed_key=key)))
    with TestClient(create_app(locked), raise_server_exceptions=False) as client:
        answer = ask((locked, client, *door[2:]), ADA)
    assert (answer.status_code, answer.json()["code"]) == (503, "seeds_unavailable")


def test_unknown_epochs_and_subnets(door):
    _, client, *_ = door
    for path in (f"/v1/epochs/9?{WHERE}", f"/v1/epochs/9/seeds?{WHERE}", "/v1/epochs/current?netuid=9"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "epoch_unknown")
    for number in ("x", "-1", "9" * 30):
        assert client.get(f"/v1/epochs/{number}?{WHERE}").status_code == 422


RESULTS = f"/v1/epochs/0/results?{WHERE}"
HEADER = "epoch,hotkey,environment,item,exposed,score"


def report(door, who, table, **headers):
    services, client, *_ = door
    body = table.encode()
    parts = {"method": "POST", "path": RESULTS, "receiver_ss58": services.hotkey, "body": body}
    signed = http_auth.sign(who, nonce_ns=services.clock.nanoseconds, **parts)
    services.clock.forward(0.001)
    return client.post(RESULTS, content=body, headers={**signed, **headers})


def test_results_of_a_validator_are_kept_once(door):
    services, client, *_ = door
    who = hotkey(MALLORY).address
    old = f"{HEADER}\n0,{who},sat,i1,1,0.5\n"
    at(door, 0)
    early = report(door, ADA, old)
    assert (early.status_code, early.json()["code"]) == (409, "epoch_not_open")
    assert at(door, 1212) is State.OPEN
    item = ask(door, ADA).json()["items"][0]
    table = old + f"0,{who},{item['environment']},{item['id']},0,1\n"
    assert client.post(RESULTS, content=table).status_code == 401
    stranger = report(door, MALLORY, table)
    assert (stranger.status_code, stranger.json()["code"]) == (403, "not_in_roster")
    first, again = report(door, ADA, table), report(door, ADA, table)
    assert (first.status_code, first.json()["scores"]) == (201, 2)
    assert (again.status_code, again.json()["new"]) == (200, False)
    rows = list(ResultStore(services.engine, PLACE).rows(reporter=hotkey(ADA).address))
    assert {(row.item, row.exposed, row.score) for row in rows} == {("i1", True, 0.5), (item["id"], False, 1.0)}


def test_nobody_reports_on_anothers_tracers_or_on_items_that_are_none(services, tmp_path, monkeypatch):
    """Whoever could, would make another validator the leak."""
    bob = pair("bob", crypto_type=0)
    chain = SimulatedChain(tmp_path)
    roster = [hotkey(ADA).address, hotkey(bob).address]
    monkeypatch.setattr(chain, "validators", lambda netuid, block: roster)
    rotation = Rotation(Shelf(services.engine, services.log, PLACE), world_of(chain), chain)
    schedule = Schedule(round_in(1200), 100, 50)
    commit(rotation.shelf, rotation.world, chain.moment(), plan=PLAN, generator=GENERATOR, schedule=schedule, count=1)
    services = dataclasses.replace(services, seal_key=lambda: SEAL_KEY)
    with TestClient(create_app(services), raise_server_exceptions=False) as client:
        door = (services, client, rotation, chain)
        at(door, 0)
        assert at(door, 1212) is State.OPEN
        owners = Access(rotation.shelf, lambda: SEAL_KEY, services.clock).owners(0)
        mine = next(key for key, owner in owners.items() if owner == roster[0])
        theirs = next(key for key, owner in owners.items() if owner == roster[1])
        common = next(key for key, owner in owners.items() if owner is None)
        header = f"{HEADER},validator"

        def row(key, validator="", exposed=0):
            return f"{header}\n0,{roster[1]},{key[0]},{key[1]},{exposed},1,{validator}\n"

        refused = [row(theirs), row(theirs, roster[1]), row(theirs, roster[0]), row(mine, roster[1])]
        refused += [row(common, roster[1]), row(("sat", "fake"), roster[1]), row(("sat", "fake"), roster[1], 1)]
        refused += [row(("sat", "deadbeef")), row(mine, "nobody")]
        for table in refused:
            assert report(door, ADA, table).status_code == 422, table
        assert list(ResultStore(services.engine, PLACE).rows(reporter=roster[0])) == []
        for table in (row(mine, roster[0]), row(common), row(("sat", "old"), exposed=1)):
            assert report(door, ADA, table).status_code == 201, table


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("1,{who},sat,i1,1,0.5", "another epoch"),
        ("0,{who},sat,i1,maybe,0.5", "not a yes or no"),
        ("0,{who},sat,i1,1,nan", "not a number"),
        ("0,{who},sat,i1,1,1\n0,{who},sat,i1,1,0", "i1"),
    ],
)
def test_bad_results_are_refused_whole_with_their_line_and_no_path(door, row, says):
    services, *_ = door
    at(door, 0)
    at(door, 1212)
    answer = report(door, ADA, f"{HEADER}\n" + row.format(who=hotkey(MALLORY).address) + "\n")
    assert answer.status_code == 422
    assert says in answer.text
    assert "body" in answer.text
    assert "results-" not in answer.text
    assert list(ResultStore(services.engine, PLACE).rows(reporter=hotkey(ADA).address)) == []
