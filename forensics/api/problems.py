"""Refusals as problem+json (RFC 9457): a stable ``code``, and what, where, got, expected and remedy beside it."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from attest import errors as attesting
from attest.errors import AttestError
from attest.log import errors as logging
from fingerprint.errors import FingerprintError

from .. import logs
from ..epochs.errors import EpochUnknown, NotInRoster
from ..errors import BadInput, Exit, ForensicsError, NotKnown, StoreCorrupt, Unavailable, UsageError, code_of
from ..hooks.subscriptions import HookUnknown, TooManyHooks
from ..text import printable

MEDIA_TYPE: Final = "application/problem+json"
_TITLES: Final = {
    400: "Bad request",
    401: "Not signed as it must be",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported",
    422: "Refused",
    429: "Too often",
    500: "Internal error",
    503: "Unavailable",
}
_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (attesting.InputTooLarge, 413),
    (attesting.MalformedInput, 400),
    (attesting.UnsupportedInput, 415),
    (logging.LogFrozen, 503),
    (logging.LogForked, 503),
    (logging.LogTampered, 503),
    (logging.ProofInvalid, 404),
    (HookUnknown, 404),
    (TooManyHooks, 409),
    (EpochUnknown, 404),
    (NotInRoster, 403),
    (AttestError, 422),
    (NotKnown, 404),
    (UsageError, 400),
    (StoreCorrupt, 500),
    (BadInput, 422),
    (Unavailable, 503),
    (FingerprintError, 422),
)
"""First match wins, so subclasses come before their bases."""
_BY_EXIT: Final = {Exit.USAGE: 400, Exit.BAD_INPUT: 422, Exit.UNAVAILABLE: 503}


class Problem(Exception):
    """A refusal that belongs to HTTP alone (not signed, too large, not found).

    Args:
        status: HTTP status.
        code: Stable word for programs.
        detail: One line for people.
        headers: Response headers besides.
    """

    def __init__(self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


Ours = Problem | ForensicsError | FingerprintError | AttestError
"""What is raised on purpose."""


def problem(status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **more: str) -> Response:
    """A problem document."""
    known = {name: printable(value) for name, value in more.items() if value}
    document: dict[str, Any] = {
        "type": f"urn:model-forensics:problem:{code}",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "code": code,
        "detail": printable(detail),
    }
    return Response(json.dumps(document | known), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def status_of(error: Exception) -> int:
    """HTTP status of an error of ours; what the table does not name is told by the exit code it stands for."""
    found = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
    if found is None and isinstance(error, ForensicsError):
        return _BY_EXIT.get(error.exit, 500)
    return found or 500


def answer_to(error: Ours) -> Response:
    """The document that an error of ours becomes."""
    if isinstance(error, Problem):
        return problem(error.status, error.code, error.detail, headers=error.headers)
    status = status_of(error)
    if status >= 500:  # where our things are is nobody's business; the log has the rest
        logs.logger("forensics.api").warning("failed", code=code_of(error), error=str(error))
        return problem(status, code_of(error), error.what, headers={"Retry-After": "5"} if status == 503 else None)
    fields = {"where": error.where, "got": str(error.got), "expected": str(error.expected), "remedy": error.remedy}
    return problem(status, code_of(error), error.what, **fields)


def install(app: FastAPI) -> None:
    """Answer every error as a problem; what nobody foresaw is a 500 that says nothing about the inside."""

    def own(_: Request, error: Exception) -> Response:
        assert isinstance(error, Ours)  # noqa: S101 - registered for these
        return answer_to(error)

    def framework(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, code, str(error.detail), headers=headers)

    def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this
        first = error.errors()[0]
        return problem(422, "invalid_request", first["msg"], where=".".join(str(part) for part in first["loc"]))

    def unforeseen(_: Request, error: Exception) -> Response:
        logs.logger("forensics.api").error("unforeseen", exc_info=error)
        return problem(500, "internal_error", "something went wrong here; it is not your request")

    for kind in (ForensicsError, FingerprintError, AttestError, Problem):
        app.add_exception_handler(kind, own)
    app.add_exception_handler(HTTPException, framework)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unforeseen)
