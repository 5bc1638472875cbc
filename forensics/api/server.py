"""The running server: verdict reads in front, the application behind them, in one process or in several.

Several processes share one listening socket; each has its own copy of the newest snapshot. They are started afresh
(never forked: threads and database connections do not survive that), so what they need comes through the environment,
under the names that the settings have anyway.
"""

from __future__ import annotations

import os
import socket
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from .. import logs
from ..settings import ENV_PREFIX, Settings, load
from ..store.engine import connect
from ..store.migrate import ensure
from . import metrics
from .app import create_app
from .services import Services
from .verdicts.hot import HotVerdicts

if TYPE_CHECKING:
    from collections.abc import Mapping

GRACE_SECONDS: Final = 10
"""How long requests under way may take when the server is told to stop."""
BACKLOG: Final = 2048


def application(services: Services) -> ASGIApp:
    """Everything that answers."""
    return HotVerdicts(create_app(services), services.snapshots, services.counts)


def create() -> ASGIApp:
    """The application of a worker process, from settings in the environment."""
    settings = load()
    logs.configure(settings)
    engine = connect(settings.database_url, busy_seconds=settings.busy_seconds)
    ensure(engine)
    services = Services.open(settings, engine)
    services.warm()
    return application(services)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: The address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def run(listening: socket.socket, app: ASGIApp, settings: Settings) -> None:
    """Serve in this process until a signal comes."""
    logs.configure(settings)
    uvicorn.Server(_config(app, settings)).run(sockets=[listening])


def run_many(listening: socket.socket, workers: int, settings: Settings) -> None:
    """Serve in ``workers`` processes until a signal comes; one that dies is replaced.

    Args:
        listening: Shared by all.
        workers: How many.
        settings: What they work on.
    """
    os.environ.update(environment(settings))
    config = _config(f"{__name__}:create", settings, factory=True, workers=workers)
    with TemporaryDirectory(prefix="forensics-metrics-") as folder:
        os.environ[metrics.FOLDER] = folder
        Multiprocess(config, sockets=[listening]).run()


def environment(settings: Settings) -> Mapping[str, str]:
    """Variables from which ``load`` makes the same settings again; secrets among them, so for children only."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    revealed = {n: v.get_secret_value() if hasattr(v, "get_secret_value") else v for n, v in given.items()}
    return {ENV_PREFIX + name.upper(): str(value) for name, value in revealed.items() if value is not None}


def _config(app: ASGIApp | str, settings: Settings, **more: int | bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
        **more,  # type: ignore[arg-type]
    )
