"""``/v1/evidence``: what a verdict or a measured lineage was made from, by its digest.

Digests of evidence stand in signed verdicts; who has one may have the bytes, and ``forensics replay`` recomputes the
result from them. Other blobs (fingerprints of models, statements) are not given out here, whatever their digest, and
evidence whose digest was never published is as good as hidden: nobody can guess one.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.responses import Response

from ... import bundle
from ...errors import ForensicsError, StoreUnavailable
from ...evidence import SCHEMA
from ...store.blobs import MISSING
from .. import openapi
from ..problems import Problem
from ..services import Services

FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
ZIP, JSON = "application/zip", "application/json"
FOUND: Final[openapi.Responses] = {200: {"description": "The bytes of that digest.", "content": {ZIP: {}, JSON: {}}}}
ENVELOPE: Final = b'{"payload":'
"""How a stored statement begins: canonical JSON, and no evidence."""
Digest = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$", description="Its digest.", examples=[openapi.DIGEST])]


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/evidence", tags=["evidence"])

    @routes.get(
        "/{digest}",
        summary="An evidence bundle (zip) or document (JSON): what `forensics replay` takes",
        response_class=Response,
        responses=FOUND | openapi.problems("evidence_unknown", "invalid_request"),
    )
    def show(digest: Digest) -> Response:
        data = _bytes(services, digest)
        kind = _kind(data)
        if kind is None:
            raise Problem(404, "evidence_unknown", "no evidence of this digest is published here")
        name = digest.removeprefix("sha256:")[:16] + (".zip" if kind == ZIP else ".json")
        headers = {"Content-Disposition": f'attachment; filename="evidence-{name}"', "ETag": f'"{digest}"'}
        return Response(data, media_type=kind, headers=FOREVER | headers)

    return routes


def _bytes(services: Services, digest: str) -> bytes:
    try:
        return services.blobs.get(digest)
    except StoreUnavailable as error:
        if error.what != MISSING:
            raise
        raise Problem(404, "evidence_unknown", "no evidence of this digest is published here") from None


def _kind(data: bytes) -> str | None:
    """Media type of evidence; None for any other blob."""
    if data[:2] == b"PK":
        try:
            bundle.unpack(data, schema=SCHEMA, where="evidence")
        except ForensicsError:
            return None
        return ZIP
    return JSON if data.startswith(b'{"') and not data.startswith(ENVELOPE) else None
