"""``python -m benchmarks.log --leaves 1000000``: one table of rates, one JSON.

Entries are appended in transactions of ``--batch``; then proofs of random leaves and of random sizes are made and
verified, and the log is opened again, which hashes every leaf and compares every tile and checkpoint.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import tempfile
import time
from pathlib import Path

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log, verify_receipt
from attest.log.merkle import verify_consistency
from attest.log.note import open_checkpoint
from forensics.log_store import DatabaseLog
from forensics.store.engine import connect

SIGNER = Ed25519Signer(b"\x01" * 32)
ORIGIN = "log.example/benchmark"
BODY = 400  # bytes: a statement that names a few digests


def measure(url: str, leaves: int, batch: int, proofs: int) -> dict[str, float]:
    """Append, prove, verify and reopen; seconds and rates."""
    rng = random.Random(0)
    log = Log(DatabaseLog(connect(url)), SIGNER, origin=ORIGIN)
    roots: list[tuple[int, bytes]] = []
    began = time.perf_counter()
    for start in range(0, leaves, batch):
        stop = min(start + batch, leaves)
        log.append([number.to_bytes(8, "big") + rng.randbytes(BODY - 8) for number in range(start, stop)])
        tree = open_checkpoint(log.checkpoint(), log=log.key).checkpoint
        roots.append((tree.size, tree.root))
    appended = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(proofs):
        index = rng.randrange(leaves)
        assert verify_receipt(log.prove(index).encode(), log=log.key).leaf[:8] == index.to_bytes(8, "big")
    proved = time.perf_counter() - began
    for _ in range(min(proofs, len(roots) - 1)):
        (old, old_root), (new, new_root) = sorted(rng.sample(roots, 2))
        verify_consistency(old, new, log.prove_consistency(old, new), old_root, new_root)
    began = time.perf_counter()
    Log(DatabaseLog(connect(url)), SIGNER, origin=ORIGIN, known=[log.checkpoint()])
    audited = time.perf_counter() - began
    return {
        "leaves": leaves,
        "leaves_per_second": leaves / appended,
        "proof_and_verification_ms": 1000 * proved / proofs,
        "start_up_audit_seconds": audited,
    }


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--proofs", type=int, default=1000)
    parser.add_argument("--url", help="an empty database; a SQLite file in a temporary folder when left out")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/log.db"
        found = measure(url, options.leaves, options.batch, options.proofs)
    for name, value in found.items():
        print(f"{name:28} {value:14,.2f}")
    if options.out:
        document = {"machine": platform.platform(), "batch": options.batch, "database": url.split(":")[0], **found}
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
