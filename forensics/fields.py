"""Members of documents that somebody else wrote, each with the type it must have before anything is done with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import BadInput

SHOWN = 80


def text(found: Mapping[str, Any], name: str, *, where: str) -> str:
    """A member that must be text.

    Raises:
        BadInput: It is absent, or something else.
    """
    value = found.get(name)
    if not isinstance(value, str) or any("\ud800" <= c <= "\udfff" for c in value):  # a lone surrogate has no bytes
        raise _wrong(name, value, where, "text")
    return value


def integer(found: Mapping[str, Any], name: str, *, where: str) -> int:
    """A member that must be a number, not below zero.

    Raises:
        BadInput: It is absent, or something else; true and false are no numbers.
    """
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(name, value, where, "a whole number, not below zero")
    return value


def maybe_integer(found: Mapping[str, Any], name: str, *, where: str) -> int | None:
    """A member that must be there, as a number or null.

    Raises:
        BadInput: It is absent, or something else.
    """
    if name in found and found[name] is None:
        return None
    return integer(found, name, where=where)


def texts(found: Mapping[str, Any], name: str, *, where: str) -> list[str]:
    """A member that must be a list of texts.

    Raises:
        BadInput: It is absent, or something else.
    """
    value = found.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, value, where, "a list of texts")
    return value


def shown(value: object) -> str:
    """A value of any type as short JSON, for messages."""
    try:
        return json.dumps(value)[:SHOWN]
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


def _wrong(name: str, value: object, where: str, expected: str) -> BadInput:
    return BadInput(f"member {name} is of the wrong kind", where=where, got=shown(value), expected=expected)
