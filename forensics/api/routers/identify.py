"""``POST /v1/identify``: which known model is this fingerprint?"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from ...known.claim import BLOCK_LIMIT
from .. import openapi
from ..asking import Question
from ..problems import Problem
from ..request import Raw, parsed, raw
from ..services import Services

MAX_FINGERPRINT: Final = 16 << 20
"""Bytes; one of an 8 B model has under 1 MB, one of a mixture of 6,000 experts 12 MB."""
FILE, JSON = "application/octet-stream", "application/json"
EXAMPLE: Final = {
    "candidate": openapi.DIGEST,
    "algorithm": "fingerprint-v1;key=0f",
    "depth": "sketch",
    "finding": True,
    "false_accusation_probability": 1e-9,
    "searched": 1204,
    "proposed": 16,
    "matches": [
        {
            "model": openapi.DIGEST,
            "base": False,
            "earlier": True,
            "distance": 0.0001,
            "comparison": {"relation": "perturbed", "copy": True, "confidence": 0.9999999, "coverage": 0.98},
        }
    ],
    "skipped": 0,
}


class Known(BaseModel):
    """A model that is known here, by its content root."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str = Field(pattern=r"^sha256:[0-9a-f]{64}$", description="Content root.", examples=[openapi.DIGEST])


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/identify", tags=["identify"])

    @routes.post(
        "",
        summary="What a fingerprint is to the known models, by fingerprints alone; a signed request",
        responses=openapi.answer(200, "Nearest known models, what says most first.", EXAMPLE)
        | openapi.problems(
            *openapi.SIGNED,
            "identify_busy",
            "identify_failed",
            "fingerprint_refused",
            "invalid_request",
            "body_too_large",
            "not_found",
        ),
        openapi_extra=openapi.signed(
            body={
                FILE: {"schema": {"type": "string", "format": "binary", "description": "`forensics scan --out FILE`"}},
                JSON: {"schema": Known.model_json_schema()},
            },
            keyed=False,
        ),
    )
    def identify(
        request: Annotated[Raw, Depends(raw)],
        top: Annotated[int, Query(ge=1, le=20, description="Matches that are shown.")] = 5,
        block: Annotated[
            int | None, Query(ge=0, lt=BLOCK_LIMIT, description="Block of your claim: later claims accuse nobody.")
        ] = None,
    ) -> Response:
        caller = request.caller(services).hotkey.address
        fingerprint, known = _asked(request)
        found = services.asking.ask(Question(fingerprint, known, top, caller, block))
        return JSONResponse(found, headers={"Cache-Control": "no-store"})

    return routes


def _asked(request: Raw) -> tuple[bytes | None, str | None]:
    """The fingerprint, or the known model."""
    kind = request.headers.get("content-type", FILE).partition(";")[0].strip().lower()
    if kind == JSON:
        return None, parsed(request.body, Known).model
    if len(request.body) > MAX_FINGERPRINT:
        raise Problem(413, "body_too_large", f"a fingerprint may have {MAX_FINGERPRINT} bytes")
    return request.body, None
