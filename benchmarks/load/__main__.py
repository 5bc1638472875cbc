"""``python -m benchmarks.load``: verdict reads under load; one table, one JSON.

Goals (issue 5): the snapshot of 256 uids at least 2,500 times a second on two cores, wrk and server together, with a
99th percentile under 25 ms, flat from a thousand known models to a hundred thousand; 304 faster; a single verdict the
same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from forensics.keys import Keys
from forensics.settings import Settings, load
from forensics.store.engine import connect
from forensics.store.migrate import ensure

from . import world, wrk
from .world import NETUID

RATE_GOAL, P99_GOAL = 2500.0, 25.0
SNAPSHOT = f"/v1/netuids/{NETUID}/verdicts"


@contextmanager
def server(settings: Settings, workers: int) -> Iterator[str]:
    """``forensics serve`` on that home; yields its URL."""
    command = [sys.executable, "-m", "forensics", "serve", "--port", "0", "--workers", str(workers)]
    environment = os.environ | {"FORENSICS_HOME": str(settings.home)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = iter(process.stderr)
            yield next(line.split()[1] for line in said if line.startswith("serving"))
        finally:
            process.terminate()


def etag_of(url: str) -> str:
    """The snapshot's ETag; waits for the first answer."""
    with urllib.request.urlopen(url + SNAPSHOT, timeout=60) as answer:  # noqa: S310 - loopback
        return str(answer.headers["etag"])


def measure(url: str, *, seconds: int, connections: int, folder: Path) -> dict[str, wrk.Run]:
    """The four kinds of read."""
    tag = etag_of(url)
    singles = [f"{SNAPSHOT}/{world.hotkey_of(uid)}" for uid in range(256)]
    kinds: dict[str, dict[str, list[str]]] = {
        "snapshot": {},
        "snapshot, gzip": {"headers": ["Accept-Encoding: gzip"]},
        "304": {"headers": [f"If-None-Match: {tag}"]},
        "single verdict": {"paths": singles},
    }
    return {
        kind: wrk.run(url + SNAPSHOT, seconds=seconds, connections=connections, folder=folder, **how)
        for kind, how in kinds.items()
    }


def line(models: int, kind: str, run: wrk.Run) -> str:
    """A row of the table."""
    good = run.rate >= RATE_GOAL and run.p99 < P99_GOAL and not run.errors
    return (
        f"{models:>8}  {kind:<15} {run.rate:>9.0f} {run.p50:>8.2f} {run.p99:>8.2f} {run.megabytes:>7.0f}"
        f" {run.errors:>7}  {'' if good else 'below the goal'}"
    )


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="benchmarks.load", description=__doc__)
    parser.add_argument("--models", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--uids", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("load.json"))
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="forensics-load-") as folder:
        settings = load(home=Path(folder) / "home")
        engine = connect(settings.database_url)
        ensure(engine)
        size = len(world.publish(engine, Keys.of(settings).service(), uids=options.uids))
        print(f"{options.uids} uids, {size} bytes, {options.workers} workers, {options.connections} connections")
        print("  models  read               req/s   p50 ms   p99 ms    MB/s  errors")
        already = 0
        for models in sorted(options.models):
            world.know(engine, models, already=already)
            already = models
            with server(settings, options.workers) as url:
                found = measure(url, seconds=options.seconds, connections=options.connections, folder=Path(folder))
            for kind, run in found.items():
                print(line(models, kind, run), flush=True)
                rows.append({"models": models, "read": kind, **asdict(run)})
            print(f"          (database {world.size_of(settings.home) >> 20} MiB)")
        engine.dispose()
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()}
    document = {"machine": machine, "snapshot_bytes": size, "workers": options.workers, "runs": rows}
    options.out.write_text(json.dumps(document, indent=2) + "\n")
    good = all(row["errors"] == 0 for row in rows)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except wrk.WrkFailed as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(4)
