"""``python -m benchmarks.service``: latency, 256 miners at once, and kill -9 while submissions come in."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import postgres

from .kills import kill_and_check
from .latency import burst, one_by_one

PARTS = ("latency", "burst", "kills")


def main() -> int:
    """Run the parts that were asked for on the databases that were asked for, print a table, write JSON."""
    options = _options()
    work = Path(tempfile.mkdtemp(prefix="forensics-service-", dir=options.scratch))
    results: list[dict[str, object]] = []
    try:
        for kind in options.databases:
            for part in options.parts:
                with _database(kind) as url:
                    workers = options.workers if url else 0
                    run = _run_of(part, options)
                    print(f"{part} on {kind} ...", flush=True)
                    found = run(work / f"{part}-{kind}", url, workers)
                results.append({"part": part, "database": kind, **found})
                _print(results[-1])
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    document = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpus": os.cpu_count(), "results": results}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written: {options.out}")
    return 0


def _run_of(part: str, options: argparse.Namespace) -> Callable[[Path, str, int], dict[str, float]]:
    if part == "latency":
        hub = options.hub / f"field-{options.miners}"
        return lambda folder, url, workers: one_by_one(
            folder, hub=hub, count=options.singles, of=options.miners, database=url, workers=workers
        )
    if part == "burst":
        hub = options.hub / f"field-{options.miners}"
        return lambda folder, url, workers: burst(folder, hub=hub, count=options.miners, database=url, workers=workers)
    hub = options.hub / f"field-{options.submissions}"
    return lambda folder, url, workers: kill_and_check(
        folder, hub=hub, count=options.submissions, kills=options.kills, database=url, workers=workers
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--workers", type=int, default=3, help="worker processes on PostgreSQL")
    parser.add_argument("--singles", type=int, default=12, help="commitments of the latency run")
    parser.add_argument("--miners", type=int, default=256, help="commitments of the burst")
    parser.add_argument("--submissions", type=int, default=200, help="commitments of the kill run")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument(
        "--hub", type=Path, default=Path(".cache/benchmarks/service"), help="where checkpoints are kept"
    )
    parser.add_argument("--scratch", type=Path, default=None, help="folder for the homes")
    parser.add_argument("--keep", action="store_true", help="leave the homes where they are")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/service.json"))
    return parser.parse_args()


@contextmanager
def _database(kind: str) -> Iterator[str]:
    """URL of a fresh database; empty for SQLite in the home."""
    if kind == "sqlite":
        yield ""
        return
    with postgres.cluster(fsync=True) as server, postgres.database(server) as url:
        yield url


def _print(result: dict[str, object]) -> None:
    for name, value in result.items():
        print(f"  {name:<26}{value:.3f}" if isinstance(value, float) else f"  {name:<26}{value}")


if __name__ == "__main__":
    raise SystemExit(main())
