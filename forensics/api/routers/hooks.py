"""``/v1/hooks``: be told of changed verdicts (Standard Webhooks)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from attest import canonical
from attest.errors import AttestError
from attest.keys import ss58

from ...hooks import signing
from ...hooks.subscriptions import ONLY_MOST, Hook
from .. import openapi
from ..idempotency import Answer
from ..problems import Problem
from ..request import Raw, parsed, raw
from ..roles import Role
from ..services import Services

NEVER: Final = {"Cache-Control": "no-store"}
EXAMPLE: Final = {
    "id": "hook_5d41402abc4b2a76b9719d911017c592",
    "netuid": 120,
    "url": "https://validator.example/verdicts",
    "only": [],
    "made_at": "2026-11-30T12:00:00+00:00",
    "ended": None,
}
Id = Annotated[str, Path(pattern=r"^hook_[0-9a-f]{32}$", description="Its id.", examples=[EXAMPLE["id"]])]


class Wish(BaseModel):
    """Where to be told, and of whom."""

    model_config = ConfigDict(extra="forbid", strict=True)

    netuid: int = Field(ge=0, le=0xFFFF, description="Subnet.", examples=[120])
    url: str = Field(min_length=1, max_length=2000, description="https, public.", examples=[EXAMPLE["url"]])
    only: list[str] = Field(
        default=[], max_length=ONLY_MOST, description="Hotkeys; everybody when empty.", examples=[[openapi.ADA]]
    )


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/hooks", tags=["hooks"])
    hooks = services.hooks

    @routes.post(
        "",
        status_code=201,
        summary="Be told when verdicts change; a signed request of a registered hotkey",
        responses=openapi.answer(201, "Made; its secret is at `/v1/hooks/{id}/secret`.", EXAMPLE)
        | openapi.problems(
            *openapi.SIGNED, *openapi.KEYED, "role_missing", "netuid_not_served", "invalid_request", "hotkey_malformed"
        ),
        openapi_extra=openapi.signed(body={"application/json": {"schema": Wish.model_json_schema()}}),
    )
    def make(request: Annotated[Raw, Depends(raw)]) -> Response:
        caller = request.caller(services).hotkey.address

        def act() -> Answer:
            wish = parsed(request.body, Wish)
            if services.netuid is not None and wish.netuid != services.netuid:
                raise Problem(422, "netuid_not_served", f"this service works for subnet {services.netuid}")
            services.roles.demand(caller, Role.MINER, netuid=wish.netuid)
            made = hooks.add(caller, netuid=wish.netuid, url=wish.url, only=[_address(h) for h in wish.only])
            return Answer(201, canonical.write(document(made)))

        answer = services.answers.once(request.idempotency_key, hotkey=caller, request=request.identity, act=act)
        return Response(answer.body, status_code=answer.status, media_type="application/json")

    @routes.get(
        "",
        summary="Your webhooks; a signed request",
        responses=openapi.answer(200, "All of them.", {"hooks": [EXAMPLE]}) | openapi.problems(*openapi.SIGNED),
        openapi_extra=openapi.signed(keyed=False),
    )
    def mine(request: Annotated[Raw, Depends(raw)]) -> Response:
        caller = request.caller(services).hotkey.address
        return JSONResponse({"hooks": [document(hook) for hook in hooks.of(caller)]}, headers=NEVER)

    @routes.get(
        "/{id}/secret",
        summary="What messages are signed with; a signed request of the owner",
        responses=openapi.answer(200, "The secret.", {"secret": signing.spelled(bytes(32))})
        | openapi.problems(*openapi.SIGNED, "invalid_request"),
        openapi_extra=openapi.signed(keyed=False),
    )
    def secret(id: Id, request: Annotated[Raw, Depends(raw)]) -> Response:
        caller = request.caller(services).hotkey.address
        return JSONResponse({"secret": signing.spelled(hooks.secret(caller, id))}, headers=NEVER)

    @routes.delete(
        "/{id}",
        status_code=204,
        summary="Be told no more; a signed request of the owner",
        response_class=Response,
        responses=openapi.problems(*openapi.SIGNED, "invalid_request"),
        openapi_extra=openapi.signed(keyed=False),
    )
    def remove(id: Id, request: Annotated[Raw, Depends(raw)]) -> Response:
        hooks.remove(request.caller(services).hotkey.address, id)
        return Response(status_code=204)

    return routes


def document(hook: Hook) -> dict[str, Any]:
    """A webhook without its secret."""
    return {
        "id": hook.name,
        "netuid": hook.netuid,
        "url": hook.url,
        "only": list(hook.only),
        "made_at": hook.made_at.isoformat(),
        "ended": hook.ended_why,
    }


def _address(hotkey: str) -> str:
    try:
        return ss58.normalise(hotkey)
    except AttestError as error:
        raise Problem(400, "hotkey_malformed", error.what) from None
