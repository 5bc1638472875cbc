"""``/v1/epochs``: where an epoch stands, its public file, and its items to whom they are due.

While an epoch is open only the validators of its roster get items, by a signed request, and each hand-over is on
record; after the reveal everyone gets everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from attest import canonical

from ...epochs.access import Access
from ...epochs.errors import EpochUnknown, NotInRoster
from ...epochs.machine import FINAL, State
from ...epochs.public import epoch_file
from ...epochs.records import Epoch
from ...epochs.shelf import Shelf
from ...errors import UsageError
from ...place import DEFAULT_COMPETITION, Place
from ..problems import Problem
from ..request import Raw, raw
from ..services import Services

JSON: Final = "application/json"
NEVER: Final = {"Cache-Control": "no-store"}
Netuid = Annotated[int | None, Query(ge=0, le=0xFFFF, description="Subnet; the one served when there is one.")]
Competition = Annotated[str, Query(max_length=512, description="Competition on that subnet.")]


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/epochs", tags=["epochs"])

    def shelf_of(netuid: int | None, competition: str) -> Shelf:
        chosen = services.netuid if netuid is None else netuid
        if chosen is None:
            raise Problem(400, "invalid_request", "for which subnet? give netuid")
        return Shelf(services.engine, services.log, Place(services.genesis, chosen, competition))

    @routes.get("/current", summary="The epoch that is under way, else the next one, else the last")
    def current(netuid: Netuid = None, competition: Competition = DEFAULT_COMPETITION) -> dict[str, Any]:
        epochs = shelf_of(netuid, competition).epochs()
        living = [epoch for epoch in epochs if epoch.state not in FINAL]
        chosen = next(iter(living), epochs[-1] if epochs else None)
        if chosen is None:
            raise Problem(404, "epoch_unknown", "no epochs are committed here")
        return document(chosen)

    @routes.get("/{number}", summary="The public file of an epoch: what `forensics seeds verify` takes")
    def show(number: int, netuid: Netuid = None, competition: Competition = DEFAULT_COMPETITION) -> Response:
        with _known():
            return Response(epoch_file(shelf_of(netuid, competition), number).encode(), media_type=JSON, headers=NEVER)

    @routes.get("/{number}/seeds", summary="Items of an epoch: a validator's own while hidden, everything after")
    def seeds(
        number: int,
        request: Annotated[Raw, Depends(raw)],
        netuid: Netuid = None,
        competition: Competition = DEFAULT_COMPETITION,
    ) -> Response:
        shelf = shelf_of(netuid, competition)
        access = Access(shelf, services.seal_key, services.clock)
        with _known():
            if shelf.epoch(number).state is State.REVEALED:
                found = access.revealed(number).document()
            else:
                found = access.fetch(number, request.caller(services).hotkey.address).document()
        return Response(canonical.write(found), media_type=JSON, headers=NEVER)

    return routes


def document(epoch: Epoch) -> dict[str, Any]:
    """Where an epoch stands; everything in it is public."""
    return {
        "epoch": epoch.number,
        "netuid": epoch.contest.netuid,
        "competition": epoch.contest.competition,
        "state": str(epoch.state),
        "void_reason": epoch.void_reason or None,
        "commitment": epoch.commitment.hex(),
        "plan": epoch.plan.write(),
        "generator": epoch.generator,
        "mix_round": epoch.mix_round,
        "open_round": epoch.open_round,
        "roster": list(epoch.roster),
    }


@contextmanager
def _known() -> Iterator[None]:
    """Turns what epochs refuse into the statuses of HTTP."""
    try:
        yield
    except EpochUnknown as error:
        raise Problem(404, "epoch_unknown", error.what) from None
    except UsageError:
        raise Problem(503, "seeds_unavailable", "the service's sealing key is not at hand") from None
    except NotInRoster as error:
        raise Problem(403, "not_in_roster", error.what) from None
