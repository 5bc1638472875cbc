"""A service that listens on loopback while a test runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from forensics.api.app import create_app
from forensics.api.services import Services
from forensics.settings import Settings
from forensics.store.engine import connect
from forensics.store.migrate import ensure


@contextmanager
def served(settings: Settings) -> Iterator[tuple[Services, str]]:
    """The services of a home, and the URL at which they answer."""
    engine = connect(settings.database_url)
    ensure(engine)
    services = Services.open(settings, engine)
    server = uvicorn.Server(uvicorn.Config(create_app(services), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield services, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()
    engine.dispose()
