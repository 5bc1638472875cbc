"""What the OpenAPI description says besides what the routes' types say: examples, problems, signed requests."""

from __future__ import annotations

from typing import Any, Final

from .codes import HTTP, Code

Responses = dict[int | str, dict[str, Any]]
PROBLEM: Final = "application/problem+json"
ADA: Final = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
BOB: Final = "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"
REVISION: Final = "8d1a2c3b4e5f60718293a4b5c6d7e8f901234567"
DIGEST: Final = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
SIGNED: Final = ("auth_malformed", "auth_stale", "auth_replayed", "auth_bad_signature", "auth_wrong_receiver")
"""What every signed request may be refused with."""
KEYED: Final = ("idempotency_key_malformed", "idempotency_key_reused")
ALWAYS: Final = ("rate_limited", "overloaded", "internal_error")
"""What every request may be refused with."""
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457. docs/errors.md lists every code.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:model-forensics:problem:not_known"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Stable word for programs.", "examples": ["not_known"]},
        "detail": {"type": "string", "description": "One line for people."},
        **{name: {"type": "string"} for name in ("where", "got", "expected", "remedy")},
    },
}
SECURITY: Final[dict[str, Any]] = {
    "btauth": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Bittensor-Signature",
        "description": "btauth/1 (bittensor.http_auth): method, path and body are signed by a hotkey for the hotkey in "
        "/v1/service; each signed request is good once, for ten seconds.",
    }
}
KEY_PARAMETER: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "1 to 255 visible ASCII characters: the same request sent again within a day gets the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "7b0e9c0a-2f6c-4f5e-9a55-0a52f7a1c3d4",
}


def problems(*codes: str) -> Responses:
    """Responses for these codes (of ``codes.HTTP``), by status, with an example each."""
    by_status: Responses = {}
    for code in dict.fromkeys((*codes, *ALWAYS)):
        known = HTTP[code]
        response = by_status.setdefault(
            known.status,
            {
                "description": "",
                "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}},
            },
        )
        response["description"] = ", ".join(filter(None, (response["description"], f"`{code}`")))
        response["content"][PROBLEM]["examples"][code] = {"value": example(code, known)}
    return by_status


def example(code: str, known: Code) -> dict[str, Any]:
    """A problem document with this code."""
    return {
        "type": f"urn:model-forensics:problem:{code}",
        "title": "...",
        "status": known.status,
        "code": code,
        "detail": known.means,
        **({"remedy": known.remedy} if known.remedy else {}),
    }


def answer(status: int, description: str, value: Any, *, media: str = "application/json") -> Responses:
    """A response with an example."""
    kind = {"type": "object"} if media == "application/json" else {"type": "string"}
    kind = {"type": "array"} if isinstance(value, list) else kind
    return {status: {"description": description, "content": {media: {"schema": kind, "example": value}}}}


def signed(*, body: dict[str, Any] | None = None, keyed: bool = True) -> dict[str, Any]:
    """``openapi_extra`` of a route that takes signed requests.

    Args:
        body: Content by media type.
        keyed: Whether it takes ``Idempotency-Key``.
    """
    extra: dict[str, Any] = {"security": [{"btauth": []}]}
    if keyed:
        extra["parameters"] = [KEY_PARAMETER]
    if body is not None:
        extra["requestBody"] = {"required": True, "content": body}
    return extra


def complete(description: dict[str, Any]) -> dict[str, Any]:
    """Add what all routes share, and take out what FastAPI says of errors that are answered otherwise here."""
    components = description.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = SCHEMA
    components["securitySchemes"] = SECURITY
    for methods in description["paths"].values():
        for operation in methods.values():
            _replace_validation(operation["responses"])
    return description


def _replace_validation(responses: dict[str, Any]) -> None:
    said = responses.get("422", {}).get("content", {})
    if "application/json" in said:
        responses["422"] = problems("invalid_request")[422]
