"""A life of epochs on bittensor's own client over a chain in memory."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import pytest
from bittensor_core import Keypair

from attest.keys import ss58
from attest.log import Log
from attest.seeds.beacon import QUICKNET
from attest.seeds.verify import verify
from forensics.chain.anchors import CommitmentAnchors
from forensics.chain.fake import NETWORK, FakeSubstrate
from forensics.chain.recorded import Recorded, record
from forensics.chain.subtensor import Subtensor
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.interfaces import World
from forensics.epochs.machine import State
from forensics.epochs.node import NodeChain
from forensics.epochs.public import epoch_file
from forensics.epochs.rotation import Rotation
from forensics.epochs.shelf import Shelf
from forensics.epochs.verifying import check
from forensics.log_store import DatabaseAnchors, DatabaseLog
from forensics.place import Place
from tests.attest.seeds.simulated import SimulatedBeacon

from .simulated import GENERATOR, ORIGIN, PLAN, SEAL_KEY, SIGNER

ALICE, BOB = (Keypair.create_from_uri(uri) for uri in ("//Alice", "//Bob"))


@pytest.fixture
def substrate(tmp_path, monkeypatch) -> FakeSubstrate:
    monkeypatch.setenv("BTCLI_TOKEN_SYMBOLS_CACHE", str(tmp_path / "symbols.json"))
    made = FakeSubstrate(registered=[(120, ALICE.ss58_address)])
    made.put("SubtensorModule", "ValidatorPermit", (120,), [True, False, True, True])
    for uid, address in enumerate((BOB.ss58_address, ALICE.ss58_address, ALICE.ss58_address)):
        made.put("SubtensorModule", "Keys", (120, uid), address)
    return made


def test_epochs_live_on_a_node(engine, substrate):
    node = Subtensor(NETWORK, signer=ALICE, substrate=substrate)
    chain = NodeChain(node, CommitmentAnchors(node, netuid=120, book=DatabaseAnchors(engine)))
    league = SimulatedBeacon()
    league.now = chain.moment().time

    def clock() -> datetime:
        return datetime.fromtimestamp(league.now).astimezone()

    world = World(SIGNER, lambda: SEAL_KEY, league, timelock=league, network=league.network, clock=clock)
    place = Place("0x" + node.genesis().hex(), 120, "demo")
    shelf = Shelf(engine, Log(DatabaseLog(engine), SIGNER, origin=ORIGIN), place)
    rotation = Rotation(shelf, world, chain)
    schedule = Schedule(QUICKNET.round_at(league.now + 1200), 100, 50)
    commit(shelf, world, chain.moment(), plan=PLAN, generator=GENERATOR, schedule=schedule, count=2)
    rotation.advance()
    assert {epoch.state for epoch in shelf.epochs()} == {State.ANCHORED}
    assert substrate.submitted == 1

    substrate.down = True
    assert "could not be asked" in rotation.advance()[0].note
    substrate.down = False

    substrate.produce(98)
    league.now = chain.moment().time
    rotation.advance()
    assert shelf.epoch(0).state is State.OPEN
    assert set(shelf.epoch(0).roster) == {BOB.ss58_address, ALICE.ss58_address}

    substrate.produce(13)
    league.now = chain.moment().time
    rotation.advance()
    assert shelf.epoch(0).state is State.REVEALED
    report = verify(epoch_file(shelf, 0), key=shelf.log.key, now=league.now, network=league.network)
    assert report.complete, report.links
    check_the_anchor_with_the_chain(node, epoch_file(shelf, 0), league)
    node.close()


def check_the_anchor_with_the_chain(node, file, league) -> None:
    """A sceptic asks a node of their own, or a recording of it, and believes neither a moved block nor another time."""
    stamp = file.stamps[0]
    hotkey = ss58.account_id(stamp.hotkey)
    recorded = record(node, netuid=120, hotkeys=[hotkey], at=[stamp.block])
    for chain in (node, Recorded.parse(recorded.encode())):
        asked = {"trust": None, "network": league.network, "now": league.now, "chain": chain}
        assert "confirmed by the chain" in check(file, **asked).report.links[3].detail
        lies = {"block_time": stamp.block_time - 3600, "extrinsic": 7, "block_hash": "11" * 32}
        for name, value in lies.items():
            lie = dataclasses.replace(file, stamps=(dataclasses.replace(stamp, **{name: value}),))
            wrong = check(lie, **asked).report.wrong
            assert (wrong.name, wrong.code) == ("anchor", "anchor_invalid")
