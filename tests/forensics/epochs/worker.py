"""What the killed processes do: move epochs on, let validators fetch, and say what was acknowledged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from time import sleep

from forensics.epochs.access import Access
from forensics.epochs.errors import EpochHidden
from forensics.epochs.machine import State

from .simulated import VALIDATORS, SimulatedChain, service


def main(url: str, folder: Path, said: Path, seed: int) -> None:
    """Until killed: for each new time, move on and then acknowledge that time."""
    chain = SimulatedChain(folder)
    rotation = service(url, chain)
    access = Access(rotation.shelf, rotation.world.seal_key, rotation.world.clock)
    rng = random.Random(seed)  # noqa: S311 - choices of a test
    with said.open("a", buffering=1) as out:
        out.write(json.dumps(["ready"]) + "\n")
        seen = None
        while True:
            if (time := chain.time) == seen:
                sleep(0.003)
                continue
            seen = time
            rotation.advance()
            for epoch in rotation.shelf.living():
                if epoch.state is State.OPEN:
                    _fetch(access, epoch.number, rng.choice(VALIDATORS), chain, out)
            out.write(json.dumps(["at", time]) + "\n")


def _fetch(access, number, hotkey, chain, out) -> None:
    try:
        handout = access.fetch(number, hotkey)
    except EpochHidden:
        return
    ids = sorted(item.id for item in handout.items)
    out.write(json.dumps(["fetched", number, hotkey, chain.time, ids]) + "\n")
