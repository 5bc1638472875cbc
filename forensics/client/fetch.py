"""One GET with a deadline over everything: connecting, headers that trickle in, body, and the pauses between tries.

Timeouts of an HTTP library count from byte to byte, so a server that sends a byte now and then holds a caller for
ever; the deadline here does not. Bodies are counted as they arrive and never decompressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import UsageError
from ..text import printable, without_userinfo
from .codes import Code, Problem
from .core import MAX_BODY, MAX_ETAG, Answer

if TYPE_CHECKING:
    import httpx2

DEADLINE: Final = 30.0
"""Seconds; a validator of Affine's subnet must have set its weights 480 s after it began."""
TRIES: Final = 3
PAUSE: Final = 1.0
"""Seconds before the second try, doubled before each further one."""
TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Fetcher:
    """How to ask one service.

    Args:
        url: ``http://HOST:PORT`` or ``https://HOST``.
        transport: An ``httpx2.AsyncBaseTransport``; tests need no network.
        deadline: Seconds for all tries together.
        tries: How often, while the service cannot be reached or says that it is busy.
        pause: Seconds before the second try.
    """

    url: str
    transport: httpx2.AsyncBaseTransport | None = None
    deadline: float = DEADLINE
    tries: int = TRIES
    pause: float = PAUSE

    def __post_init__(self) -> None:
        text = self.url
        if not text.startswith(("http://", "https://")) or any(c.isspace() for c in text) or not text.isprintable():
            raise UsageError(
                "not a service's URL", got=without_userinfo(text)[:200], expected="http://HOST:PORT or https://HOST"
            )
        if not 0 < self.deadline <= 3600 or not 1 <= self.tries <= 100:
            raise UsageError("deadline or tries out of range", got=f"{self.deadline} s, {self.tries} tries")

    @property
    def shown(self) -> str:
        """The URL without a password."""
        return without_userinfo(self.url.rstrip("/"))

    @property
    def plain(self) -> bool:
        """Whether the way to the service is not encrypted and leaves this machine."""
        host = self.url.split("//", 1)[1].split("/", 1)[0].rpartition("@")[2]
        local = host.startswith(("127.", "localhost", "[::1]"))
        return self.url.startswith("http://") and not local

    async def get(self, path: str, headers: Mapping[str, str]) -> Answer | Problem:
        """The answer, complete and bounded, or why there is none; never raises for what a network can do."""
        import httpx2

        try:
            async with asyncio.timeout(self.deadline):
                return await self._tries(path, headers)
        except TimeoutError:
            return Problem(Code.TIMED_OUT, f"{self.shown}: no complete answer within {self.deadline:g} s")
        except httpx2.InvalidURL:
            return Problem(Code.UNREACHABLE, f"{self.shown}: not a URL")

    async def _tries(self, path: str, headers: Mapping[str, str]) -> Answer | Problem:
        found = await self._once(path, headers)
        pause = self.pause
        for _ in range(self.tries - 1):
            if isinstance(found, Answer) and found.status not in TRANSIENT:
                return found
            if isinstance(found, Problem) and found.code is not Code.UNREACHABLE:
                return found
            await asyncio.sleep(pause)
            pause *= 2
            found = await self._once(path, headers)
        return found

    async def _once(self, path: str, headers: Mapping[str, str]) -> Answer | Problem:
        import httpx2

        options = httpx2.Timeout(self.deadline)
        try:
            async with (
                httpx2.AsyncClient(
                    base_url=self.url.rstrip("/"), transport=self.transport, timeout=options, follow_redirects=False
                ) as client,
                client.stream("GET", path, headers=dict(headers)) as answer,
            ):
                return await self._bounded(answer)
        except httpx2.TimeoutException:
            return Problem(Code.TIMED_OUT, f"{self.shown}: no answer within {self.deadline:g} s")
        except (httpx2.HTTPError, OSError) as error:
            text = printable(str(error) or type(error).__name__).replace(self.url.rstrip("/"), self.shown)
            return Problem(Code.UNREACHABLE, f"{self.shown}: {text[:200]}")

    async def _bounded(self, answer: httpx2.Response) -> Answer | Problem:
        if answer.headers.get("content-encoding", "identity") != "identity":
            return Problem(Code.MALFORMED, f"{self.shown}: a compressed answer, which was not asked for")
        said = answer.headers.get("content-length", "")
        if said.isdecimal() and int(said[:20]) > MAX_BODY:
            return Problem(Code.TOO_LARGE, f"{self.shown}: {said[:20]} bytes, at most {MAX_BODY} are read")
        body = bytearray()
        async for chunk in answer.aiter_bytes():  # not compressed, see above
            body += chunk
            if len(body) > MAX_BODY:
                return Problem(Code.TOO_LARGE, f"{self.shown}: more than {MAX_BODY} bytes")
        return Answer(answer.status_code, bytes(body), answer.headers.get("etag", "")[: MAX_ETAG + 1])
