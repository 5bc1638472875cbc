"""The pages about hidden seeds, run as printed: a rehearsed chain, real rounds of drand quicknet, a real door."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from attest.seeds.errors import BeaconUnavailable
from attest.seeds.plan import Environment, Plan
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.file_chain import FileChain
from forensics.epochs.opening import open_rotation
from forensics.epochs.public import epoch_file
from forensics.epochs.rotation import Rotation
from forensics.place import GENESIS, Place
from forensics.settings import load
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.attest.seeds.test_beacon import OTHER_ROUNDS
from tests.docs.pages import ROOT, run_page
from tests.forensics.attesting import hotkey, make_wallet
from tests.forensics.serving import served

VALIDATORS, SCEPTICS = (ROOT / "docs" / f"seeds-for-{who}.md" for who in ("validators", "sceptics"))
SEED_KEY = "07" * 32


def desk_of(folder: Path) -> Path:
    """A rehearsal's chain and beacon, and a validator's wallet."""
    folder.mkdir()
    validator = hotkey(make_wallet(folder / "wallets", "ada").hotkey).address
    contents = {"genesis": GENESIS["finney"], "netuid": 120, "hotkey": validator, "block": 0, "time": 1692802000}
    genesis, rest = json.dumps(contents | {"validators": [validator], "anchors": []}).split(', "netuid"')
    before, after = rest.split(', "validators"')
    (folder / "chain.json").write_text(f'{genesis},\n "netuid"{before},\n "validators"{after}\n')
    (folder / "beacon.jsonl").write_text("")
    for round_, signature in OTHER_ROUNDS.items():
        (folder / f"round-{round_}.json").write_text(json.dumps({"round": round_, "signature": signature}) + "\n")
    (folder / "generators.py").write_text("def task(draw): ...\n")
    return folder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.mark.timeout(300)
def test_the_validators_page(tmp_path, environment):
    """From an empty folder, with nothing but what the page gives."""
    desk = tmp_path / "desk"
    desk.mkdir()
    (program,) = re.findall(r"^```python\n(.*?)^```", VALIDATORS.read_text(), re.MULTILINE | re.DOTALL)
    (desk / "ask.py").write_text(program)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run_page(VALIDATORS, desk, environment | {"PORT": str(free_port())}, seconds=280)


@pytest.fixture
def lives(tmp_path, environment):
    """Files of an honest, a silent and a late operator, their key, and the door to their log."""
    desk = desk_of(tmp_path / "desk")
    settings = load(home=tmp_path / "operator", genesis=GENESIS["finney"], seed_key=SEED_KEY)
    engine = connect(settings.database_url)
    ensure(engine)
    place = Place(GENESIS["finney"], 120)
    begun = (desk / "chain.json").read_text()
    for name, competition in (("epoch-0", "default"), ("late", "late"), ("silent", "silent")):
        (desk / "chain.json").write_text(begun)
        place = Place(GENESIS["finney"], 120, competition)
        opened = open_rotation(settings, engine, place, chain=FileChain(desk / "chain.json"), beacon=BEACON)
        lived(opened, desk, name)
        (desk / f"{name}.json").write_bytes(epoch_file(opened.shelf, 0).encode())
    (desk / "beacon.jsonl").write_text("".join((desk / f"round-{r}.json").read_text() for r in (123, 1000)))
    engine.dispose()
    with served(settings) as (_, url):
        yield desk, str(opened.shelf.log.key), url


class Turned:
    """Real rounds of quicknet, of which those up to ``last`` are out."""

    last = 0

    def signature(self, round_: int) -> bytes:
        if round_ > self.last:
            raise BeaconUnavailable("not out yet", where=f"round {round_}")
        return bytes.fromhex(OTHER_ROUNDS[round_])


BEACON = Turned()


def lived(rotation: Rotation, desk: Path, who: str) -> None:
    """Epoch 0 to its end; a late operator anchors when the beacon is long out, a silent one goes away."""
    BEACON.last = 0
    plan = Plan.of(Environment("sat", 6, 2), Environment("deduction", 4, 0))
    parts = {"plan": plan, "generator": "sha256:" + "07" * 32, "schedule": Schedule(123, 5000, 877), "count": 2}
    commit(rotation.shelf, rotation.world, rotation.chain.moment(), **parts)
    rotation.shelf.flush()
    rotation.shelf.take_receipts()
    if who == "late":
        turn(desk, 1692805009)
        rotation.chain.anchor(rotation.shelf.anchored_digest(rotation.shelf.epoch(0)))
    rotation.advance()
    for last, moment in ((123, 1692803740), (1000, 1692806400)):
        if who == "silent" and last == 1000:
            return
        BEACON.last = last
        turn(desk, moment)
        rotation.advance()


def turn(desk: Path, moment: int) -> None:
    """Set the rehearsed chain's time."""
    contents = json.loads((desk / "chain.json").read_text())
    (desk / "chain.json").write_text(json.dumps(contents | {"time": max(moment, contents["time"])}))


@pytest.mark.timeout(300)
def test_the_sceptics_page(lives, environment):
    desk, key, url = lives
    run_page(SCEPTICS, desk, os.environ | environment | {"LOG_KEY": key, "SERVICE": url}, seconds=280)
