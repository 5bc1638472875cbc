"""``forensics serve``: the service over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import Exit, Unavailable
from .console import say
from .home import Home

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65535)] = 8000,
) -> int:
    """Serve the HTTP API; an empty home is made ready.

    Audits the whole log before it listens, and refuses to start on one that is not what was signed. TLS, and limits on
    how often somebody may ask, belong in the proxy before it.
    """
    import socket

    import uvicorn

    from ..api.app import create_app
    from ..api.services import Services
    from ..keys import Keys

    home = Home(context.obj)
    services = Services.open(home.settings, home.engine)
    if not home.settings.key_password.get_secret_value():
        say("note: the service's key is not encrypted; FORENSICS_KEY_PASSWORD, set before the first start, does that")
    for edge in services.attestations.reconsider():
        say(f"note: lineage {edge.declared} is now {edge.judgement}")
    services.log.checkpoint()
    app = create_app(services)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Unavailable("cannot listen", where=f"{host}:{port}", got=error.strerror or str(error)) from None
    bound = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    say(f"log {Keys.of(home.settings).service_public()}")
    say(f"serving http://{shown}:{bound} (interrupt to stop)")
    if host not in LOCAL:
        say("note: reachable from other machines; put a proxy with TLS and rate limits before it")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=10))
    with listening:
        server.run(sockets=[listening])
    return Exit.CLEAN
