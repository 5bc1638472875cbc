"""Verifying a receipt offline: the claim's signature, its inclusion, the checkpoint's signature, the context.

In a warm process, as a service or a validator does it, and as one run of ``forensics verify``, most of which is Python
starting and the cryptography being imported.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

from attest import claims
from attest import envelope as dsse
from attest.checking import Expected
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.hotkey import Hotkey
from attest.keys.sr25519 import Sr25519Signer
from attest.log import Log
from attest.predicates import Context
from benchmarks.log.endurance import stored
from forensics.trust import Trusted
from forensics.verifying.logged import verify_logged
from forensics.verifying.statements import Question

GENESIS = "0x" + sha256(b"a chain").hexdigest()
HERE = Expected(genesis=GENESIS, netuid=120, competition="benchmark")
ORIGIN = "log.example/receipts"
SERVICE = Ed25519Signer(sha256(b"service").digest())
MINER = Sr25519Signer(sha256(b"miner").digest())
COMMAND = [sys.executable, "-c", "from forensics.cli.main import run; run()"]


def make(folder: Path, *, leaves: int) -> tuple[Path, Log]:
    """The receipt of an ownership claim in a log of so many leaves, and the log."""
    roots = claims.Roots(*(f"sha256:{sha256(name).hexdigest()}" for name in (b"content", b"nameless", b"oms")))
    context = Context.of(
        Hotkey.of(MINER.verifier),
        genesis=GENESIS,
        netuid=120,
        competition="benchmark",
        claimed_at="2026-11-30T12:00:00Z",
    )
    claim = dsse.sign(claims.own(context, roots).payload(), [MINER]).to_json()
    with stored(f"sqlite:///{folder}/receipts.db") as storage:
        log = Log(storage, SERVICE, origin=ORIGIN)
        for start in range(0, leaves - 1, 1000):
            log.append([f"filler {number}".encode() for number in range(start, min(start + 1000, leaves - 1))])
        (index,) = log.append([claim])
        log.checkpoint()
        file = folder / "claim.tlog-proof"
        file.write_bytes(log.prove(index).encode())
    return file, log


def verify_ms(file: Path, log: Log, *, times: int) -> list[float]:
    """Milliseconds of each verification in this process, reading the file included."""
    question = Question(HERE, Trusted(logs=(log.key,)))
    found = []
    for _ in range(times):
        began = time.perf_counter()
        report = verify_logged(file.read_bytes(), question, statement=None, where=file.name)
        found.append(1000 * (time.perf_counter() - began))
        assert report.proven
    return found


def command_ms(file: Path, log: Log, home: Path, *, times: int) -> float:
    """Median milliseconds of ``forensics verify FILE`` from start to exit."""
    asked = [*COMMAND, "verify", str(file), "--trust", str(log.key), "--genesis", GENESIS, "--netuid", "120"]
    found = []
    for _ in range(times):
        began = time.perf_counter()
        environment = {"FORENSICS_HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(asked, capture_output=True, text=True, check=False, env=environment, timeout=120)
        found.append(1000 * (time.perf_counter() - began))
        assert done.returncode == 0, done.stderr
    return statistics.median(found)
