"""The JSON schemas of our statements and envelopes, as published under ``docs/schemas``."""

from __future__ import annotations

import json
from typing import Final

from attest.envelope import IN_TOTO, MAX_SIGNATURES, Wrapping
from attest.record import Schema
from attest.statement import NAMESPACE, PREDICATES, json_schema

_BASE64: Final = r"^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$"


def published() -> dict[str, bytes]:
    """File name and content of every published schema: one for each predicate type, and the envelope's."""
    files = {_file_name(kind): json_schema(kind) for kind in PREDICATES}
    files["envelope.schema.json"] = envelope_schema()
    return {name: (json.dumps(schema, indent=1) + "\n").encode() for name, schema in sorted(files.items())}


def envelope_schema() -> Schema:
    """DSSE envelope; unknown members are allowed and ignored, as the specification asks."""
    entry = {
        "type": "object",
        "properties": {
            "keyid": {"type": "string", "maxLength": 256},
            "sig": {"type": "string", "pattern": _BASE64},
            "wrapping": {"enum": [str(word) for word in Wrapping]},
        },
        "required": ["sig"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": NAMESPACE + "schema:envelope",
        "title": "DSSE envelope",
        "type": "object",
        "properties": {
            "payload": {"type": "string", "pattern": _BASE64},
            "payloadType": {"const": IN_TOTO},
            "signatures": {"type": "array", "items": entry, "minItems": 1, "maxItems": MAX_SIGNATURES},
        },
        "required": ["payload", "payloadType", "signatures"],
    }


def _file_name(predicate_type: str) -> str:
    return predicate_type.removeprefix(NAMESPACE).replace("/", "-") + ".schema.json"
