"""``/v1/epochs``: where an epoch stands, its public file, its items to whom they are due, and what was measured.

While an epoch is open only the validators of its roster get items, by a signed request, and each hand-over is on
record; after the reveal everyone gets everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import Response

from attest import canonical
from attest.seeds.errors import SealInvalid
from detectors.errors import MalformedFacts
from detectors.overfit.results import Results, Row, from_rows

from ...epochs.access import Access
from ...epochs.errors import EpochUnknown, NotInRoster
from ...epochs.machine import FINAL, State
from ...epochs.public import epoch_file
from ...epochs.records import Epoch
from ...epochs.reporting import Owners, reportable
from ...epochs.shelf import Shelf
from ...errors import BadInput, UsageError
from ...place import DEFAULT_COMPETITION, Place
from ...results.store import ResultStore
from ...results.table import ResultsFile, in_file
from ..idempotency import Answer
from ..problems import Problem
from ..request import Raw, raw
from ..services import Services

JSON: Final = "application/json"
NEVER: Final = {"Cache-Control": "no-store"}
Netuid = Annotated[int | None, Query(ge=0, le=0xFFFF, description="Subnet; the one served when there is one.")]
Competition = Annotated[str, Query(max_length=512, description="Competition on that subnet.")]


MAX_EPOCH: Final = (1 << 53) - 1
Number = Annotated[int, Path(ge=0, le=MAX_EPOCH, description="Number of the epoch.")]


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/epochs", tags=["epochs"])

    def shelf_of(netuid: int | None, competition: str) -> Shelf:
        chosen = services.netuid if netuid is None else netuid
        if chosen is None:
            raise Problem(400, "parameter_missing", "for which subnet? give netuid")
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
    def show(number: Number, netuid: Netuid = None, competition: Competition = DEFAULT_COMPETITION) -> Response:
        with _known():
            return Response(epoch_file(shelf_of(netuid, competition), number).encode(), media_type=JSON, headers=NEVER)

    @routes.get("/{number}/seeds", summary="Items of an epoch: a validator's own while hidden, everything after")
    def seeds(
        number: Number,
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

    @routes.post("/{number}/results", status_code=201, summary="A validator's per-item results, CSV or Parquet")
    def results(
        number: Number,
        request: Annotated[Raw, Depends(raw)],
        netuid: Netuid = None,
        competition: Competition = DEFAULT_COMPETITION,
    ) -> Response:
        caller = request.caller(services)
        shelf = shelf_of(netuid, competition)
        with _known():
            epoch = shelf.epoch(number)
        reporter = caller.hotkey.address
        _may_report(epoch, reporter)

        def act() -> Answer:
            owners = Access(shelf, services.seal_key, services.clock).owners(number)
            table = _table(request.body, number, owners, reporter=reporter)
            kept = ResultStore(services.engine, shelf.contest, clock=services.clock).add(table, reporter=reporter)
            found = {"epoch": number, "digest": kept.digest, "new": kept.new, "scores": kept.scores}
            return Answer(201 if kept.new else 200, canonical.write(found))

        answer = services.answers.once(request.idempotency_key, hotkey=reporter, request=request.identity, act=act)
        return Response(answer.body, status_code=answer.status, media_type=JSON)

    return routes


MEASURED: Final = frozenset({State.OPEN, State.CLOSED, State.REVEALED})
"""States in which somebody can have measured: nobody knows an item before."""


def _may_report(epoch: Epoch, hotkey: str) -> None:
    """Only validators of the roster report, and only once there was something to measure.

    Raises:
        Problem: 403, or 409.
    """
    if epoch.state not in MEASURED:
        raise Problem(409, "epoch_not_open", f"the epoch is {epoch.state}: its items are not known yet")
    if hotkey not in epoch.roster:
        raise Problem(403, "not_in_roster", "results are taken from validators of the epoch's roster")


def _table(body: bytes, number: int, owners: Owners, *, reporter: str) -> Results:
    """The rows of a results table; every one of them must be of this epoch, and the reporter's to report.

    Raises:
        BadInput: It is no results table, or holds rows of another epoch, of no item, or on another's tracers.
    """
    with NamedTemporaryFile(prefix="results-") as file:
        file.write(body)
        file.flush()
        try:
            rows = _of_epoch(ResultsFile(FilePath(file.name)).rows(), number)
            return from_rows(reportable(rows, owners, reporter=reporter))
        except MalformedFacts as error:
            raise in_file(error, FilePath("body")) from None
        except BadInput as error:
            where = error.where.replace(file.name, "body")  # nobody outside needs to know our folders
            raise BadInput(error.what, where=where, got=error.got, expected=error.expected) from None


def _of_epoch(rows: Iterator[Row], number: int) -> Iterator[Row]:
    for row in rows:
        if row.epoch != number:
            where = f"body: line {row.line}: epoch"
            raise BadInput("a row of another epoch", where=where, got=row.epoch, expected=number)
        yield row


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
    except (UsageError, SealInvalid):
        raise Problem(503, "seeds_unavailable", "the service's sealing key is not at hand") from None
    except NotInRoster as error:
        raise Problem(403, "not_in_roster", error.what) from None
