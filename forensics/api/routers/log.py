"""``/v1/log``: the transparency log as C2SP tiles, checkpoint and receipts, for whoever wants to check us."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from attest.log.tiles import Tile

from ..problems import Problem
from ..services import Services

TEXT: Final = "text/plain; charset=utf-8"
FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
NEVER: Final = {"Cache-Control": "no-store"}


def router(services: Services) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/log", tags=["log"])
    log = services.log

    @routes.get("/checkpoint", summary="The newest signed checkpoint (C2SP signed note)")
    def checkpoint() -> Response:
        latest = log.latest()
        note = latest.note.encode() if latest is not None else log.checkpoint()
        return Response(note, media_type=TEXT, headers=NEVER)

    @routes.get("/tile/{path:path}", summary="A tile of hashes, or with entries/ of leaves (C2SP tlog-tiles)")
    def tile(path: str) -> Response:
        data = log.tile(f"tile/{path}")
        whole = Tile.parse(f"tile/{path}").width == 256
        return Response(data, media_type="application/octet-stream", headers=FOREVER if whole else NEVER)

    @routes.get("/proof", summary="A receipt (index=N), or that one tree is a prefix of another (old=M&new=N)")
    def proof(index: int | None = None, old: int | None = None, new: int | None = None) -> Response:
        if index is not None and old is None and new is None:
            return Response(log.prove(index).encode(), media_type=TEXT, headers=NEVER)
        if index is None and old is not None and new is not None:
            return Response(_consistency(old, new), media_type="application/json", headers=NEVER)
        raise Problem(400, "parameter_missing", "give index, or old and new")

    def _consistency(old: int, new: int) -> bytes:
        path = log.prove_consistency(old, new)
        document: dict[str, Any] = {"old": old, "new": new, "path": [base64.b64encode(p).decode() for p in path]}
        return json.dumps(document).encode()

    return routes
