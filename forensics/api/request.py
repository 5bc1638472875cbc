"""A request as it arrived: the bytes that are hashed, verified and parsed are the bytes received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from attest import canonical

from .auth import Caller, authenticate
from .idempotency import HEADER
from .problems import Problem
from .services import Services

MAX_FORM: Final = 64 << 10
"""Bytes of a JSON body that is filled in by hand, so to speak; statements are larger, and read elsewhere."""
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Raw:
    """Method, target, headers and body of a request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def identity(self) -> bytes:
        """What must be equal for two requests to be the same."""
        return f"{self.method}\n{self.target}\n".encode() + self.body

    @property
    def idempotency_key(self) -> str | None:
        """The header, if it was sent."""
        return self.headers.get(HEADER.lower())

    def caller(self, services: Services) -> Caller:
        """Who signed it.

        Raises:
            Problem: 401, or 429 for who asks too often.
        """
        caller = authenticate(services, self.headers, self.body, method=self.method, target=self.target)
        services.hotkeys.demand(caller.hotkey.address)
        return caller


async def raw(request: Request) -> Raw:
    """Dependency: the request with its whole body, whose size was limited on the way.

    Raises:
        Problem: The client went away in the middle of it; nobody reads the answer, and it is no fault of ours to log.
    """
    path = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope.get("query_string", b"")
    target = path.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    try:
        body = await request.body()
    except ClientDisconnect:
        raise Problem(400, "body_incomplete", "the connection closed before the whole body was there") from None
    return Raw(request.method, target, dict(request.headers.items()), body)


def parsed(body: bytes, kind: type[Model]) -> Model:
    """A JSON body as what it must be; strict JSON, bounded in depth before it is parsed.

    Raises:
        MalformedInput: Not strict JSON, or no object.
        Problem: 422, with the field.
    """
    found = canonical.read_object(body, where="body", max_bytes=MAX_FORM)
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Problem(422, "invalid_request", f"{where or 'body'}: {first['msg']}") from None
