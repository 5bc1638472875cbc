"""HTTP to a hub that may be away, busy, wrong or under somebody else's control.

Redirects are followed here, one by one: to the hub's own hosts only, and the token goes to the hub's address alone. A
body is never read past what was asked for, an answer to a range is taken only when it says that it is that range, and a
server that trickles is given up. Nothing is unpacked: only identity encoding is asked for and taken (RFC 9110).
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .interface import Refusal, State

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS: Final = 5
MAX_WAIT: Final = 3600.0
"""Seconds that a hub may ask to be left alone; more is taken as this."""
HUB_HOSTS: Final = ("huggingface.co", "hf.co")
"""Domains to which the hub redirects for large files (its CDN and storage)."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class Pace:
    """How slow a server may be: at least ``bytes`` in every ``seconds``."""

    bytes: int = 64 << 10
    seconds: float = 30.0


@dataclass(frozen=True)
class Wire:
    """A connection to one hub.

    Args:
        endpoint: URL of the hub, without a path.
        client: Made by ``connect``.
        token: Sent to the endpoint alone; empty for none.
        hosts: Domains, besides the endpoint's host, to which redirects may lead.
        pace: How slow a server may be.
        clock: Seconds, monotonic.
    """

    endpoint: str
    client: httpx2.Client
    token: str = field(default="", repr=False)
    hosts: tuple[str, ...] = HUB_HOSTS
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.monotonic

    def small(self, path: str, *, where: str, max_bytes: int) -> bytes:
        """A whole body of bounded size.

        Raises:
            Refusal: The hub's answer is an error, or longer.
        """
        with self.open(path, where=where) as answer:
            body = b"".join(self.body(answer, where=where, most=max_bytes + 1))
        if len(body) > max_bytes:
            raise Refusal(State.UNAVAILABLE, "the answer is too long", where=where, expected=f"<= {max_bytes} bytes")
        return body

    @contextmanager
    def open(self, path: str, *, where: str, first: int = 0, last: int | None = None) -> Iterator[httpx2.Response]:
        """An answer whose body is not read yet: bytes ``first`` to ``last`` where the server obeys ranges.

        Raises:
            Refusal: No answer, an error, or a redirect to where nothing may come from.
        """
        import httpx2

        headers = {"Accept-Encoding": "identity"}
        if first or last is not None:
            headers["Range"] = f"bytes={first}-{'' if last is None else last}"
        url = httpx2.URL(self.endpoint).join(path)
        try:
            for _ in range(MAX_REDIRECTS + 1):
                request = self.client.build_request("GET", url, headers=headers | self._token_for(url))
                answer = self.client.send(request, stream=True, follow_redirects=False)
                try:
                    if answer.status_code not in _REDIRECTS:
                        self._check(answer, where)
                        yield answer
                        return
                    url = self._next(url, answer, where)
                finally:
                    answer.close()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _away(error, where) from None
        raise Refusal(State.UNAVAILABLE, "too many redirects", where=where, expected=f"<= {MAX_REDIRECTS}")

    def body(self, answer: httpx2.Response, *, where: str, most: int) -> Iterator[bytes]:
        """The body as it comes, never more than ``most`` bytes of it.

        Raises:
            Refusal: ``unavailable``, when the connection breaks or the server is too slow.
        """
        import httpx2

        left, window, came = most, self.clock(), 0
        try:
            for chunk in answer.iter_raw():  # as it arrives: filling chunks of a size would hide a trickle
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return
                came += len(chunk)
                now = self.clock()
                if now - window >= self.pace.seconds:
                    if came < self.pace.bytes:
                        got = f"{came} bytes in {now - window:.0f} s"
                        raise Refusal(State.UNAVAILABLE, "the server is too slow", where=where, got=got)
                    window, came = now, 0
        except httpx2.HTTPError as error:
            raise _away(error, where) from None

    def _token_for(self, url: httpx2.URL) -> dict[str, str]:
        import httpx2

        own = httpx2.URL(self.endpoint)
        same = (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)
        return {"Authorization": f"Bearer {self.token}"} if self.token and same else {}

    def _next(self, url: httpx2.URL, answer: httpx2.Response, where: str) -> httpx2.URL:
        import httpx2

        target = url.join(answer.headers.get("location", ""))
        own = httpx2.URL(self.endpoint)
        same = (target.scheme, target.host, target.port) == (own.scheme, own.host, own.port)
        ours = target.scheme == "https" and any(target.host == h or target.host.endswith(f".{h}") for h in self.hosts)
        if target.userinfo or not (same or ours):
            raise Refusal(
                State.UNAVAILABLE,
                "the hub redirects to where it has no business",
                where=where,
                got=f"{target.scheme}://{target.host}"[:120],
                expected=", ".join((own.host, *self.hosts)),
            )
        return target

    def _check(self, answer: httpx2.Response, where: str) -> None:
        if answer.headers.get("content-encoding", "identity") not in ("identity", ""):
            got = answer.headers["content-encoding"][:40]
            raise Refusal(State.UNAVAILABLE, "the answer is packed unasked", where=where, got=got)
        if answer.status_code not in (200, 206):
            raise refusal_of(answer.status_code, answer.headers, where=where, with_token=bool(self.token))


def connect(endpoint: str, *, token: str = "", timeout: float = 20.0, **options: object) -> Wire:
    """A wire to ``endpoint``; opened when first used. ``options`` are those of ``Wire``."""
    import httpx2

    client = httpx2.Client(timeout=timeout, follow_redirects=False, headers={"User-Agent": "model-forensics"})
    return Wire(endpoint.rstrip("/") + "/", client, token, **options)  # type: ignore[arg-type]


def starts_at(answer: httpx2.Response, first: int, size: int, *, where: str) -> int:
    """Where in the file a body begins: ``first`` when the server obeyed the range, 0 when it did not.

    Args:
        answer: The answer to ``open``.
        first: First byte that was asked for.
        size: Size of the file by the listing.
        where: For messages.

    Raises:
        Refusal: ``changed``, when it is another range or another file than was asked for.
    """
    if answer.status_code == 200:
        _same_length(answer.headers, size, where)
        return 0
    match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    if match is None or int(match[1]) != first or int(match[3]) != size:
        got = answer.headers.get("content-range", "no Content-Range")[:80]
        raise Refusal(State.CHANGED, "not the range that was asked for", where=where, got=got,
                      expected=f"bytes {first}-.../{size}")  # fmt: skip
    return first


def refusal_of(status: int, headers: Mapping[str, str], *, where: str, with_token: bool) -> Refusal:
    """What an error of the hub means (huggingface_hub, ``hf_raise_for_status``)."""
    code, message = headers.get("x-error-code", ""), headers.get("x-error-message", "")
    said = f"HTTP {status} {code or message}"[:120].strip()
    after = retry_after(headers.get("retry-after", ""))
    if code == "RevisionNotFound":
        return Refusal(State.REVISION_MISSING, "the repository has no such commit", where=where, got=said)
    if code == "GatedRepo":
        return Refusal(State.GATED, "its owner decides who may download it", where=where, got=said,
                       remedy="Ask for access, and set FORENSICS_HUB_TOKEN.")  # fmt: skip
    if code == "EntryNotFound" or status == 416:
        return Refusal(State.CHANGED, "a file that was listed is not there", where=where, got=said)
    if status == 401 and with_token and code != "RepoNotFound":
        return Refusal(State.UNAVAILABLE, "the hub does not take our token", where=where, got=said,
                       remedy="Check FORENSICS_HUB_TOKEN.")  # fmt: skip
    if status in (401, 404):
        return Refusal(State.NOT_FOUND, "no such repository, or a private one", where=where, got=said)
    if status in (403, 451):
        return Refusal(State.PRIVATE, "the hub does not let us in", where=where, got=said)
    return Refusal(State.UNAVAILABLE, "the hub does not answer as it should", where=where, got=said, retry_after=after)


def retry_after(text: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Seconds that a server asks to be left alone (RFC 9110, section 10.2.3), within reason; None when it does not."""
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), MAX_WAIT)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max((moment - now()).total_seconds(), 0.0), MAX_WAIT)


def _same_length(headers: Mapping[str, str], size: int, where: str) -> None:
    length = headers.get("content-length")
    if length is not None and length != str(size):
        raise Refusal(State.CHANGED, "another size than was listed", where=where, got=length[:20], expected=size)


def _away(error: Exception, where: str) -> Refusal:
    got = f"{type(error).__name__}: {error}"[:200]
    return Refusal(State.UNAVAILABLE, "the hub cannot be reached", where=where, got=got, remedy="It is tried again.")
