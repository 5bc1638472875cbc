"""What one request, one client and all of them together may take.

Sizes are counted while a body arrives: a declared length is checked first and not believed. A body that trickles in is
given up on. Requests beyond what is worked on at once are refused at the door, where that costs little.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attest.canonical import MAX_BYTES

from .problems import Problem, answer_to, problem
from .rates import Buckets, address_key, limited

MAX_BODY: Final = MAX_BYTES
"""16 MiB: the largest statement that is read at all."""
BODY_SECONDS: Final = 60.0
"""Time a body may take to arrive."""
AT_ONCE: Final = 256
"""Requests that are worked on at once, in each process."""
UNCOUNTED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""What whoever watches the service asks; a flood must not make it look dead."""


class BodyLimit:
    """ASGI middleware that refuses larger bodies with 413, and slower ones with 408.

    Args:
        app: What comes after.
        limit: Bytes.
        seconds: Time for the whole body.
    """

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY, seconds: float = BODY_SECONDS) -> None:
        self._app, self._limit, self._seconds = app, limit, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count, and answer in the application's place when there is too much."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self._limit:
            await self._too_large(scope, receive, send)
            return
        body = _Body(receive, self._limit, time.monotonic() + self._seconds)
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, body.receive, noted)
        except _TooLarge:
            if not started:
                await self._too_large(scope, receive, send)
        except _TooSlow:
            if not started:
                said = f"the body did not arrive within {self._seconds:g} s"
                await problem(408, "body_too_slow", said, headers={"Connection": "close"})(scope, receive, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = f"a request may have {self._limit} bytes"
        await problem(413, "body_too_large", said, headers={"Connection": "close"})(scope, receive, send)


class _Body:
    """A body as it arrives."""

    def __init__(self, receive: Receive, limit: int, deadline: float) -> None:
        self._receive, self._limit, self._deadline = receive, limit, deadline
        self._seen, self._more = 0, True

    async def receive(self) -> Message:
        if not self._more:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise _TooSlow from None
        self._seen += len(message.get("body", b""))
        self._more = bool(message.get("more_body", False))
        if self._seen > self._limit:
            raise _TooLarge
        return message


class Door:
    """ASGI middleware: how many requests at once, and how often from one address.

    Args:
        app: What comes after.
        addresses: A bucket for each client address.
        at_once: Requests that are worked on at once.
    """

    def __init__(self, app: ASGIApp, addresses: Buckets, at_once: int = AT_ONCE) -> None:
        self._app, self._addresses, self._at_once = app, addresses, at_once
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in, or refuse."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        if refused is not None:
            await answer_to(refused)(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1

    def _refusal(self, scope: Scope) -> Problem | None:
        client = scope.get("client")
        seconds = self._addresses.wait(address_key(client[0])) if client else 0.0
        if seconds:
            return limited(seconds)
        if self._inside >= self._at_once:
            return Problem(503, "overloaded", "too many requests are being worked on", headers={"Retry-After": "1"})
        return None


class _TooLarge(Exception):
    """The body went over the limit."""


class _TooSlow(Exception):
    """The body did not arrive in time."""
