"""``/v1/netuids``: what validators read before they set weights.

In a running server ``verdicts.hot`` answers these reads before they come here; the answers are the same.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path
from starlette.responses import Response

from ..services import Services
from ..verdicts import answering
from ..verdicts.answering import Reply

Netuid = Annotated[int, Path(ge=0, le=0xFFFF, description="Subnet.", examples=[120])]
Hotkey = Annotated[
    str,
    Path(
        min_length=1,
        max_length=64,
        description="ss58 address, of any prefix.",
        examples=["5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"],
    ),
]
Tags = Annotated[str | None, Header(description="ETags the caller has.", examples=['"4711-6d1c0ab9"'])]


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/netuids/{netuid}/verdicts", tags=["verdicts"])

    @routes.get("", summary="All verdicts of a subnet: the newest signed snapshot (DSSE), as it was signed")
    async def snapshot(
        netuid: Netuid, if_none_match: Tags = None, accept_encoding: Annotated[str | None, Header()] = None
    ) -> Response:
        reply = await answering.snapshot(
            services.snapshots,
            netuid,
            accept_encoding=_bytes(accept_encoding),
            if_none_match=_bytes(if_none_match),
        )
        return _response(reply)

    @routes.get("/{hotkey}", summary="The verdict on one hotkey, and the signed snapshot it stands in")
    async def single(netuid: Netuid, hotkey: Hotkey, if_none_match: Tags = None) -> Response:
        return _response(
            await answering.single(services.snapshots, netuid, hotkey, if_none_match=_bytes(if_none_match))
        )

    for path, answer in (("", snapshot), ("/{hotkey}", single)):
        routes.add_api_route(path, answer, methods=["HEAD"], include_in_schema=False)
    return routes


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1", "replace")


def _response(reply: Reply) -> Response:
    answer = Response(reply.body, status_code=reply.status)
    answer.raw_headers = list(reply.headers)
    return answer
