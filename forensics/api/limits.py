"""How large a request may be, counted while it arrives: a declared length is checked first and not believed."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attest.canonical import MAX_BYTES

from .problems import problem

MAX_BODY: Final = MAX_BYTES
"""16 MiB: the largest statement that is read at all."""


class BodyLimit:
    """ASGI middleware that refuses larger bodies with 413.

    Args:
        app: What comes after.
        limit: Bytes.
    """

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count, and answer in the application's place when there is too much."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self._limit:
            await self._refuse(scope, receive, send)
            return
        seen, started = 0, False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted, noted)
        except _TooLarge:
            if not started:
                await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(
            413, "body_too_large", f"a request may have {self._limit} bytes", headers={"Connection": "close"}
        )
        await answer(scope, receive, send)


class _TooLarge(Exception):
    """The body went over the limit."""
