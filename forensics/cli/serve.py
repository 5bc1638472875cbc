"""``forensics serve``: the service over HTTP."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Exit, Unavailable
from .console import say
from .home import Home

if TYPE_CHECKING:
    from ..api.services import Services

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1, max=64)] = 1,
    worker: Annotated[
        bool | None,
        typer.Option("--worker/--no-worker", help="Run a worker beside the server; by default on SQLite only."),
    ] = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> int:
    """Serve the HTTP API, on SQLite with a worker beside it; an empty home is made ready.

    Audits the whole log before it listens, and refuses to start on one that is not what was signed. TLS, and limits on
    how often somebody may ask, belong in the proxy before it.
    """
    from ..api import server
    from ..api.services import Services

    if until_stdin_ends:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    home = Home(context.obj)
    services = Services.open(home.settings, home.engine)
    _prepare(services, home)
    try:
        listening = server.listen(host, port)
    except OSError as error:
        raise Unavailable("cannot listen", where=f"{host}:{port}", got=error.strerror or str(error)) from None
    with listening, _beside(home, worker):
        _announce(services, host, listening.getsockname()[1])
        if workers == 1:
            services.warm()
            server.run(listening, server.application(services), home.settings)
        else:
            home.engine.dispose()
            server.run_many(listening, workers, home.settings)
    return Exit.CLEAN


def _beside(home: Home, worker: bool | None) -> AbstractContextManager[object]:
    """The worker that goes with the server, where one is wanted."""
    from ..api import server
    from ..jobs.child import Child

    wanted = home.engine.dialect.name == "sqlite" if worker is None else worker
    return Child(server.environment(home.settings), say=say) if wanted else nullcontext()


def _end_with_parent() -> None:
    """Whoever started us holds the other end of stdin; when they die, however they die, it closes."""
    while os.read(0, 1):  # not through a buffer, whose lock the interpreter could not have when it ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _prepare(services: Services, home: Home) -> None:
    """What is done once, however many processes answer."""
    if not home.settings.key_password.get_secret_value():
        say("note: the service's key is not encrypted; FORENSICS_KEY_PASSWORD, set before the first start, does that")
    for edge in services.attestations.reconsider():
        say(f"note: lineage {edge.declared} is now {edge.judgement}")
    services.log.checkpoint()


def _announce(services: Services, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    say(f"log {services.log_key}")
    say(f"serving http://{shown}:{port} (interrupt to stop)")
    if host not in LOCAL:
        say("note: reachable from other machines; put a proxy with TLS and rate limits before it")
