"""The process that is killed: it appends, signs, and says what it was told, one JSON document a line.

A line is written before each append and after each acknowledgement, so that whoever killed it knows what was under way
and what had been promised.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

ORIGIN = "log.example/killed"
SIGNER = Ed25519Signer(b"\x09" * 32)
MOST = 16  # entries in one append
PAUSE = 0.002  # seconds between appends: SQLite's lock knows no queue, so the others need a moment to take it


def bodies(name: str, turn: int) -> list[bytes]:
    """What a writer appends in its turn."""
    return [f"{name} {turn} {part}".encode() for part in range(1 + turn * 7 % MOST)]


def main(url: str, name: str, said: Path, known: Sequence[bytes] = ()) -> None:
    """Start as after a crash, knowing checkpoints that were given out before; append until killed."""
    log = Log(DatabaseLog(connect(url, busy_seconds=600)), SIGNER, origin=ORIGIN, known=known)
    with said.open("a", buffering=1) as out:

        def say(**line: Any) -> None:
            out.write(json.dumps(line) + "\n")

        say(ready=True)
        turn = 0
        while True:
            say(begins=turn)
            say(appended=turn, numbers=log.append(bodies(name, turn)))
            if turn % 3 == 0:
                say(signs=turn)
                say(signed=log.checkpoint().decode())
            turn += 1
            time.sleep(PAUSE)
