"""The pages about hidden seeds, run as printed: a rehearsed chain, real rounds of drand quicknet, a real door."""

from __future__ import annotations

import dataclasses
import json
import os
import re
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


@pytest.fixture
def url(tmp_path):
    """The home's door, listening on loopback."""
    with served(load(home=tmp_path / "home", genesis=GENESIS["finney"], seed_key=SEED_KEY)) as (_, url):
        yield url


@pytest.mark.timeout(300)
def test_the_validators_page(tmp_path, url, environment):
    desk = desk_of(tmp_path / "desk")
    (program,) = re.findall(r"^```python\n(.*?)^```", VALIDATORS.read_text(), re.MULTILINE | re.DOTALL)
    (desk / "fetch.py").write_text(program)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run_page(VALIDATORS, desk, os.environ | environment | {"SERVICE": url, "FORENSICS_SEED_KEY": SEED_KEY}, seconds=280)


@pytest.fixture
def lives(tmp_path, environment):
    """Files of an honest, a silent and a late operator, and the key they share."""
    desk = desk_of(tmp_path / "desk")
    settings = load(home=tmp_path / "operator", genesis=GENESIS["finney"], seed_key=SEED_KEY)
    engine = connect(settings.database_url)
    ensure(engine)
    place = Place(GENESIS["finney"], 120)
    begun = (desk / "chain.json").read_text()
    for name, competition in (("honest", "default"), ("late", "late")):
        (desk / "chain.json").write_text(begun)
        place = Place(GENESIS["finney"], 120, competition)
        opened = open_rotation(settings, engine, place, chain=FileChain(desk / "chain.json"), beacon=BEACON)
        lived(opened, desk, late=name == "late")
        file = epoch_file(opened.shelf, 0)
        (desk / {"honest": "epoch-0.json", "late": "late.json"}[name]).write_bytes(file.encode())
        if name == "honest":
            silent = dataclasses.replace(file, reveal=None, consistency=None, open_signature=None)
            (desk / "silent.json").write_bytes(silent.encode())
    (desk / "beacon.jsonl").write_text("".join((desk / f"round-{r}.json").read_text() for r in (123, 1000)))
    engine.dispose()
    return desk, str(opened.shelf.log.key)


class Turned:
    """Real rounds of quicknet, of which those up to ``last`` are out."""

    last = 0

    def signature(self, round_: int) -> bytes:
        if round_ > self.last:
            raise BeaconUnavailable("not out yet", where=f"round {round_}")
        return bytes.fromhex(OTHER_ROUNDS[round_])


BEACON = Turned()


def lived(rotation: Rotation, desk: Path, *, late: bool) -> None:
    """Epoch 0 from commitment to its end; a late operator anchors when the beacon is long out."""
    BEACON.last = 0
    plan = Plan.of(Environment("sat", 6, 2), Environment("deduction", 4, 0))
    parts = {"plan": plan, "generator": "sha256:" + "07" * 32, "schedule": Schedule(123, 5000, 877), "count": 2}
    commit(rotation.shelf, rotation.world, rotation.chain.moment(), **parts)
    rotation.shelf.flush()
    rotation.shelf.take_receipts()
    if late:
        turn(desk, 1692805009)
        rotation.chain.anchor(rotation.shelf.anchored_digest(rotation.shelf.epoch(0)))
    rotation.advance()
    for last, moment in ((123, 1692803740), (1000, 1692806400)):
        BEACON.last = last
        turn(desk, moment)
        rotation.advance()


def turn(desk: Path, moment: int) -> None:
    """Set the rehearsed chain's time."""
    contents = json.loads((desk / "chain.json").read_text())
    (desk / "chain.json").write_text(json.dumps(contents | {"time": max(moment, contents["time"])}))


@pytest.mark.timeout(300)
def test_the_sceptics_page(lives, environment):
    desk, key = lives
    run_page(SCEPTICS, desk, os.environ | environment | {"LOG_KEY": key}, seconds=280)
