"""JSON that means one thing only.

The json module keeps the last of two equal keys, reads NaN, and builds whatever a document asks for. Two readers that
differ on a duplicate key see two different models, so here a document is UTF-8, has unique keys, finite numbers and
bounded size, count and depth, or it is refused (RFC 8259 sections 4, 6 and 9; RFC 7493, I-JSON).
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from fingerprint.checkpoint.limits import Limits
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DAMAGED = "Download the file again; if it stays so, its author made it so."


@contextlib.contextmanager
def without_cycles() -> Iterator[None]:
    """Hold the cycle collector while a large document is built: it would walk the growing tree again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@without_cycles()
def parse_object(data: bytes, *, where: str, limits: Limits, max_bytes: int | None = None) -> dict[str, Any]:
    """Parse ``data`` as one JSON object.

    Args:
        data: The whole document; its size is checked again here.
        where: File (and field) named in errors.
        limits: Bounds on bytes, commas, containers and depth.
        max_bytes: Overrides ``limits.json_bytes``.

    Returns:
        The object. Integers keep arbitrary precision; a bool stays a bool, so test with ``type(x) is int``.

    Raises:
        MalformedCheckpoint: Not UTF-8, not JSON, a duplicate key, NaN or Infinity, a lone surrogate, no object.
        CheckpointTooLarge: Over a bound.
    """
    _check_size(data, where, limits, limits.json_bytes if max_bytes is None else max_bytes)
    try:
        text = data.decode("utf-8")
        if _SURROGATE.search(text):
            json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")  # UnicodeEncodeError on a lone half
        value = json.loads(text, object_pairs_hook=_Unique(where), parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep(where, limits) from None
    except MalformedCheckpoint:
        raise
    except ValueError as error:  # JSONDecodeError, UnicodeError, or an integer of more than 4300 digits
        raise MalformedCheckpoint(
            "not strict JSON", where=where, got=str(error), expected="UTF-8 JSON", remedy=_DAMAGED
        ) from None
    if type(value) is not dict:
        raise MalformedCheckpoint(
            "top level is no object", where=where, got=type(value).__name__, expected="a JSON object", remedy=_DAMAGED
        )
    if _depth_exceeds(value, limits.json_depth):
        raise _too_deep(where, limits)
    return value


def _check_size(data: bytes, where: str, limits: Limits, max_bytes: int) -> None:
    """Refuse what would be dear to parse; ``count`` runs at memory speed and over-counts only inside strings."""
    if len(data) > max_bytes:
        raise CheckpointTooLarge("JSON too long", where=where, got=f"{len(data)} bytes", expected=f"<= {max_bytes}")
    commas, containers = data.count(b","), data.count(b"{") + data.count(b"[")
    if commas > limits.json_commas:
        raise CheckpointTooLarge("too many JSON values", where=where, got=commas, expected=f"<= {limits.json_commas}")
    if containers > limits.json_containers:
        raise CheckpointTooLarge(
            "too many JSON containers", where=where, got=containers, expected=f"<= {limits.json_containers}"
        )


def _depth_exceeds(value: object, bound: int) -> bool:
    """Whether nesting passes ``bound``; level by level, so that the check itself cannot recurse."""
    level = [value]
    for _ in range(bound):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)  # type: ignore[attr-defined]
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _too_deep(where: str, limits: Limits) -> CheckpointTooLarge:
    return CheckpointTooLarge("JSON nested too deep", where=where, expected=f"<= {limits.json_depth} levels")


class _Unique:
    """``object_pairs_hook`` that refuses a repeated key, whatever the values are."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise MalformedCheckpoint(
                "duplicate key",
                where=f"{self.where}:{twice}"[:200],
                got="2 values",
                expected="1",
                remedy="Readers disagree on which one counts; no honest writer makes this.",
            )
        return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
