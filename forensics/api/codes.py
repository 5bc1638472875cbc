"""Every ``code`` that an answer of the API can carry, once each: its status, what it means, what to do.

Codes of the error trees come from their classes (``problems``); here are those that belong to HTTP alone.
``docs/errors.md`` is written from this (``python -m forensics.api.document``), and a test walks the code for words
that are not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from attest.errors import AttestError
from fingerprint.errors import FingerprintError

from ..errors import ForensicsError, code_of


@dataclass(frozen=True)
class Code:
    """What a code means.

    Args:
        status: HTTP status.
        means: What is wrong.
        remedy: What the caller can do.
    """

    status: int
    means: str
    remedy: str = ""


HTTP: Final[dict[str, Code]] = {
    "auth_bad_signature": Code(401, "the request's signature is not the hotkey's over this request", "Sign it again."),
    "auth_malformed": Code(401, "headers of btauth/1 are missing or not what they must be", "Sign the request."),
    "auth_refused": Code(401, "the signed request was refused"),
    "auth_replayed": Code(401, "this signed request was accepted before", "Sign each request anew."),
    "auth_stale": Code(401, "signed too long ago, or ahead of our clock", "Check the clock and sign again."),
    "auth_wrong_receiver": Code(401, "signed for another service", "Sign for the hotkey in /v1/service."),
    "body_incomplete": Code(400, "the connection closed before the whole body was there"),
    "body_too_large": Code(413, "more bytes than a request may have"),
    "body_too_slow": Code(408, "the body did not arrive in time", "Send it again over a better line."),
    "commitment_unknown": Code(
        409, "no such commitment of this hotkey was seen on chain", "Wait for the chain to be read, or commit first."
    ),
    "epoch_not_open": Code(409, "nothing can have been measured in this epoch yet", "Wait until it is open."),
    "epoch_unknown": Code(404, "no such epoch is committed here"),
    "evidence_unknown": Code(404, "no evidence of this digest is published here"),
    "fingerprint_refused": Code(422, "not a fingerprint that can be trusted", "Make it with `forensics scan`."),
    "hotkey_malformed": Code(400, "not an ss58 address"),
    "hotkey_unknown": Code(404, "this hotkey is not in the newest snapshot"),
    "http_error": Code(400, "the request is not understood"),
    "idempotency_key_malformed": Code(400, "Idempotency-Key is not 1 to 255 visible ASCII characters"),
    "idempotency_key_reused": Code(422, "this Idempotency-Key was used for another request", "Use a new one."),
    "identify_busy": Code(429, "as many identifications wait as may", "Try again after Retry-After."),
    "identify_failed": Code(503, "the comparison did not end well; nothing follows from it", "Try again later."),
    "internal_error": Code(500, "something went wrong here; it is not your request", "Tell the service's operator."),
    "invalid_request": Code(422, "a parameter or field is missing, or not what it must be"),
    "malformed_digest": Code(400, "not sha256: and 64 hex digits"),
    "method_not_allowed": Code(405, "this resource has no such method"),
    "netuid_not_served": Code(422, "another subnet than the one this service works for"),
    "not_found": Code(404, "there is no such resource"),
    "not_in_roster": Code(403, "not a validator of this epoch's roster"),
    "overloaded": Code(503, "too many requests are being worked on", "Try again after Retry-After."),
    "parameter_missing": Code(400, "a parameter that is needed here was not given"),
    "rate_limited": Code(429, "too many requests from this address or hotkey", "Try again after Retry-After."),
    "role_missing": Code(403, "this hotkey may not do that here"),
    "seeds_unavailable": Code(503, "the service's sealing key is not at hand", "Tell its operator."),
    "snapshot_unknown": Code(404, "no snapshot of this subnet has been published here"),
}
"""By code; alphabetical."""


@dataclass(frozen=True)
class Listed:
    """A row of the table of all codes.

    Args:
        code: The code.
        status: HTTP status.
        means: What is wrong.
        remedy: What the caller can do; errors of the trees bring their own along.
    """

    code: str
    status: int
    means: str
    remedy: str


def every() -> list[Listed]:
    """All codes, each once, in order.

    Raises:
        ValueError: Two meanings of one code have different statuses.
    """
    from .problems import status_of

    found = {code: Listed(code, c.status, c.means, c.remedy) for code, c in HTTP.items()}
    for kind in _classes():
        code, status = _code(kind), status_of(kind("-"))
        if code in found and found[code].status != status:
            raise ValueError(f"{code} has the statuses {found[code].status} and {status}")
        found.setdefault(code, Listed(code, status, _meaning(kind), ""))
    return [found[code] for code in sorted(found)]


def _classes() -> Iterator[type[Exception]]:
    """Every class of the three trees that are answered as problems, bases that nobody raises left out."""
    waiting: list[type[Exception]] = [ForensicsError, AttestError, FingerprintError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        ours = kind.__module__.split(".")[0] in ("forensics", "attest", "fingerprint")
        if ours and _takes_text(kind) and not _meaning(kind).startswith("Base of"):
            yield kind


def _takes_text(kind: type[Exception]) -> bool:
    try:
        kind("-")
    except TypeError:
        return False
    return True


def _code(kind: type[Exception]) -> str:
    return code_of(kind("-"))


def _meaning(kind: type[Exception]) -> str:
    first = (kind.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(first.split()).rstrip(".")
