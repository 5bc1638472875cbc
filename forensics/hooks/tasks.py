"""What a worker does for webhooks every so often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..jobs.tasks import Task
from .announcing import Announcer
from .delivering import Deliverer
from .sealing import Sealer

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from attest.keys.interface import Signer

    from ..place import Clock
    from ..settings import Settings

ANNOUNCE_SECONDS: Final = 2.0
DELIVER_SECONDS: Final = 2.0


def tasks_of(settings: Settings, engine: Engine, signer: Signer, *, genesis: str, clock: Clock) -> list[Task]:
    """Write messages for what was published, and send them; any number of workers may do both."""
    announcer = Announcer(engine, genesis, clock=clock)
    deliverer = Deliverer(engine, Sealer(signer), loopback=settings.hooks_loopback, clock=clock)
    return [
        Task("announce", ANNOUNCE_SECONDS, announcer.step, alone=True),
        Task("deliver", DELIVER_SECONDS, deliverer.step),
    ]
