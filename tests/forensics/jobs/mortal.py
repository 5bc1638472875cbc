"""A worker on DBOS that starts its first step and never ends it: ``python -m ... DATABASE NAME NOTE``; killed by a test."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from forensics.jobs.dbos import DbosJobs
from forensics.jobs.interface import Kind, Work


class Stuck:
    """Steps of which the second is never ended."""

    def __init__(self, note: Path) -> None:
        self._note = note

    def fetch(self, entry: int, turn: int) -> dict[str, bool]:
        return {"go": True}

    def fingerprint(self, entry: int, turn: int) -> dict[str, bool]:
        self._note.write_text("begun")
        time.sleep(600)
        return {"go": True}

    identify = detect = judge = publish = fetch


def main() -> None:
    database, name, note = sys.argv[1:]
    jobs = DbosJobs(Stuck(Path(note)), database=database, worker=name)
    jobs.start()
    jobs.enqueue(Work(Kind.PREPARE, 1, 1, "hub.example", 1))
    time.sleep(600)


if __name__ == "__main__":
    main()
