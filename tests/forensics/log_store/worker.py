"""What the killed processes do: append to a log, and say what was acknowledged, one number and entry a line."""

from __future__ import annotations

import time
from pathlib import Path

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

ORIGIN = "log.example/killed"
SIGNER = Ed25519Signer(b"\x09" * 32)


def main(url: str, name: str, acknowledged: Path) -> None:
    log = Log(DatabaseLog(connect(url, busy_seconds=60)), SIGNER, origin=ORIGIN)
    with acknowledged.open("a", buffering=1) as out:
        out.write("ready\n")
        for turn in range(1_000_000):
            bodies = [f"{name} {turn} {part}".encode() for part in range(1 + turn % 30)]
            numbers = log.append(bodies)
            out.write("".join(f"{n} {body.decode()}\n" for n, body in zip(numbers, bodies, strict=True)))
            if turn % 3 == 0:
                log.checkpoint()
            time.sleep(0.01)  # SQLite's lock knows no queue: let the others have it
