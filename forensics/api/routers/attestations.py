"""``/v1/attestations``: hand in a statement, get a receipt; ask for one by its digest."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from attest import canonical

from ...attestations.record import Record, envelope_json, statement_json
from ...attestations.service import Received
from ...attestations.standing import Standings
from ..idempotency import Answer
from ..problems import Problem
from ..request import Raw, raw
from ..services import Services

JSON = "application/json"


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/attestations", tags=["attestations"])
    attestations = services.attestations

    @routes.post("", status_code=201, summary="Hand in a signed statement (DSSE); a signed request")
    def hand_in(request: Annotated[Raw, Depends(raw)]) -> Response:
        caller = request.caller(services)

        def act() -> Answer:
            received = attestations.receive(request.body, submitted_by=caller.hotkey.address)
            return Answer(201 if received.new else 200, canonical.write(received_document(services, received)))

        answer = services.answers.once(
            request.idempotency_key, hotkey=caller.hotkey.address, request=request.identity, act=act
        )
        return Response(answer.body, status_code=answer.status, media_type=JSON)

    @routes.get("/{digest}", summary="A statement, its receipt under the newest checkpoint, and where it stands")
    def show(digest: str) -> dict[str, Any]:
        record = find(services, digest)
        edge = attestations.lineages.edge_of(record.digest)
        standings = attestations.standings(record.content_root or "", netuid=record.netuid)
        return {
            **record_document(services, record, standings),
            "statement": statement_json(attestations.envelope(record)),
            "envelope": envelope_json(attestations.envelope(record)),
            "receipt": attestations.receipt(record).decode(),
            "log_key": str(services.log_key),
            "lineage": None if edge is None else {"judgement": str(edge.judgement), "relation": edge.relation},
        }

    return routes


def find(services: Services, digest: str) -> Record:
    """The statement of this digest.

    Raises:
        Problem: 404.
    """
    record = services.attestations.find(digest)
    if record is None:
        raise Problem(404, "not_known", "no statement of this digest was handed in here")
    return record


def received_document(services: Services, received: Received) -> dict[str, Any]:
    """The answer to a statement that was handed in."""
    edge = received.edge
    return {
        "digest": received.record.digest,
        "kind": received.record.kind,
        "new": received.new,
        "log_index": received.record.log_index,
        "log_key": str(services.log_key),
        "receipt": received.receipt.decode(),
        "lineage": None if edge is None else {"judgement": str(edge.judgement), "relation": edge.relation},
    }


def record_document(services: Services, record: Record, standings: Standings) -> dict[str, Any]:
    """A statement without its bytes: who, about what, since when, and how it stands among claims to its model."""
    binding = services.attestations.binding(record)
    return {
        "digest": record.digest,
        "kind": record.kind,
        "form": record.form or None,
        "hotkey": record.hotkey,
        "scheme": record.scheme,
        "genesis": record.genesis,
        "netuid": record.netuid,
        "content_root": record.content_root,
        "opens": record.opens,
        "log_index": record.log_index,
        "received_at": record.received_at.isoformat(),
        "effective": None
        if binding is None
        else {"block": binding.position.block, "extrinsic_index": binding.position.extrinsic_index},
        "standing": standings.of(record.digest) if record.form and record.content_root else None,
    }
