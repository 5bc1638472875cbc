"""The quick way in: verdict reads are answered here, before the framework, from bytes in memory.

Anything else, and any read that is not as plain as can be, goes on to the application, whose own routes give the same
answers. So what is said in OpenAPI holds for both, and nothing here decides what is right.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ForensicsError
from ..metrics import SNAPSHOT, VERDICT, Counts
from ..problems import Problem, answer_to
from . import answering
from .answering import MAX_NETUID, Reply
from .newest import Newest

_PATH: Final = re.compile(r"/v1/netuids/(0|[1-9][0-9]{0,4})/verdicts(?:/([1-9A-HJ-NP-Za-km-z]{1,64}))?")
_METHODS: Final = frozenset({"GET", "HEAD"})


class HotVerdicts:
    """ASGI application in front of another.

    Args:
        app: What comes after.
        newest: Snapshots in memory.
        counts: Where reads are counted.
    """

    def __init__(self, app: ASGIApp, newest: Newest, counts: Counts) -> None:
        self._app, self._newest, self._counts = app, newest, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a verdict read, or hand on."""
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            await self._app(scope, receive, send)
            return
        asked = _PATH.fullmatch(scope["path"])
        if asked is None or int(asked[1]) > MAX_NETUID:
            await self._app(scope, receive, send)
            return
        route = SNAPSHOT if asked[2] is None else VERDICT
        try:
            reply = await self._reply(int(asked[1]), asked[2], scope["headers"])
        except (Problem, ForensicsError) as error:
            refused = answer_to(error)
            self._counts.read(route, refused.status_code)
            await refused(scope, receive, send)
            return
        self._counts.read(route, reply.status)
        await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, netuid: int, hotkey: str | None, headers: list[tuple[bytes, bytes]]) -> Reply:
        known = accepted = None
        for name, value in headers:
            if name == b"if-none-match":
                known = value if known is None else known + b"," + value
            elif name == b"accept-encoding":
                accepted = value if accepted is None else accepted + b"," + value
        if hotkey is not None:
            return await answering.single(self._newest, netuid, hotkey, if_none_match=known)
        return await answering.snapshot(self._newest, netuid, accept_encoding=accepted, if_none_match=known)
