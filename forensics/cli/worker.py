"""``forensics worker``: finds commitments, fetches, fingerprints, judges and publishes, until it is stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Exit
from .console import emit, say
from .home import Home

LEAVE_SECONDS = 8.0

if TYPE_CHECKING:
    from ..jobs.interface import Jobs, Steps


def worker(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, publish, and exit.")] = False,
    concurrency: Annotated[
        int | None, typer.Option(help="Submissions under way at once; the setting when absent.", min=1, max=256)
    ] = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
    json: Annotated[bool, typer.Option("--json", help="With --once, print one JSON document.")] = False,
) -> int:
    """Do the service's work: follow the chain, fetch, fingerprint, identify, judge and publish.

    One worker on SQLite (``serve`` starts it by itself), any number on PostgreSQL. A worker that dies is no loss: what
    it had under way is taken up by the next, or by itself when it is started again.
    """
    from ..jobs.opening import Service, work, work_once

    home = Home(_with(context.obj, concurrency))
    service = Service.open(home.settings, home.engine)
    if once:
        turns = work_once(service, say=say)
        counts = {str(state): count for state, count in service.entries.counts().items()}
        if json:
            emit({"turns": turns, "entries": counts})
        else:
            print(f"{turns} turns of work; " + ", ".join(f"{n} {state}" for state, n in sorted(counts.items())))
        return Exit.CLEAN
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if until_stdin_ends:
        threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()

    def queue(steps: Steps, name: str) -> Jobs:
        from ..jobs.dbos import DbosJobs

        settings = home.settings
        return DbosJobs(
            steps,
            database=settings.database_url,
            worker=name,
            concurrency=settings.concurrency,
            per_host=settings.per_host,
        )

    threading.Thread(target=_leave_in_time, args=(stop,), daemon=True).start()
    work(service, stop, queue=queue, say=say)
    _leave()
    return Exit.CLEAN


def _with(flags: dict[str, Any] | None, concurrency: int | None) -> dict[str, Any]:
    return {**(flags or {}), "concurrency": concurrency}


def _leave_in_time(stop: threading.Event) -> None:
    """An orderly end takes a moment; what takes longer is cut off, for everything under way is on record."""
    stop.wait()
    time.sleep(LEAVE_SECONDS)
    _leave()


def _leave() -> None:
    """End now. The interpreter would wait for threads that read checkpoints, and hold the home's lock all the while."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(Exit.CLEAN)


def _stop_with_parent(stop: threading.Event) -> None:
    """Whoever started us holds the other end of stdin; when they die, however they die, it closes."""
    while os.read(0, 1):  # not through a buffer, whose lock the interpreter could not have when it ends
        pass
    stop.set()
