"""JSON as signed material: read strictly, written in one way (RFC 8785).

Two readers must never see two documents in the same bytes. So the reader refuses everything on which JSON parsers
differ (RFC 8259 section 4 and 6, RFC 7493): duplicate keys (also when spelled with escapes), floats and exponents,
NaN and infinities, ``-0``, integers beyond 2^53 - 1, lone surrogates, a byte-order mark, any encoding but UTF-8. Size
and depth are bounded before the parser runs. What is signed by us must also be canonical: ``read_canonical`` accepts
bytes only when writing the parsed value gives the same bytes back.
"""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias

import rfc8785

from attest.errors import InputTooLarge, MalformedInput, NotCanonical

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 7493 section 2.2)."""
MAX_BYTES: Final = 16 * 1024 * 1024
"""Largest document read; a snapshot of a full subnet is under 1 MiB, a bundle of 100,000 files under 16."""
MAX_DEPTH: Final = 32
"""Deepest nesting read; our statements need 9. Bounds the recursion of the parser and of rfc8785."""

MAX_VALUES: Final = 500_000
"""Most values read, by the commas between them; a bundle of 100,000 files has 400,000. Reading a value costs
microseconds and a few bytes make one: without this bound 14 MB of ``{},{},`` keep a processor busy for 20 s."""

_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""Strings and brackets. A string without an end is one token too, so that hostile text costs one pass."""
_MAX_DIGITS: Final = len(str(MAX_SAFE_INTEGER)) + 1


def read(data: bytes, *, where: str = "JSON", max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Parse one JSON document, refusing whatever another reader could understand differently.

    Args:
        data: The bytes as received; these are the bytes whose signature is checked.
        where: Name of the artefact, for the error message.
        max_bytes: Size limit, checked first.
        max_depth: Nesting limit, checked before parsing.

    Returns:
        The value: None, bool, int, str, lists and dicts of them; never a float.

    Raises:
        InputTooLarge: Size, depth or number of values above the limit.
        MalformedInput: Everything else that is not strict JSON.
    """
    if len(data) > max_bytes:
        raise InputTooLarge("the document is too large", where=where, got=f"{len(data)} bytes", expected=max_bytes)
    if data.count(b",") > MAX_VALUES:
        raise InputTooLarge("too many values", where=where, got=data.count(b","), expected=MAX_VALUES)
    _check_depth(data, where, max_depth)
    try:
        text = data.decode("utf-8")
        value: Json = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=_no_float,
            parse_constant=_no_float,
            parse_int=_safe_integer,
        )
    except UnicodeDecodeError as error:
        raise MalformedInput("not UTF-8", where=where, got=f"byte {error.start}") from None
    except _Refusal as refusal:
        raise MalformedInput(refusal.what, where=where, got=refusal.got, expected=refusal.expected) from None
    except (ValueError, RecursionError) as error:
        raise MalformedInput("not JSON", where=where, got=str(error)) from None
    _check_text(value, where)
    return value


def read_object(data: bytes, *, where: str = "JSON", max_bytes: int = MAX_BYTES) -> dict[str, Json]:
    """``read`` for a document whose outermost value must be an object."""
    value = read(data, where=where, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise MalformedInput("not a JSON object", where=where, got=type(value).__name__, expected="object")
    return value


def read_canonical(data: bytes, *, where: str = "JSON", max_bytes: int = MAX_BYTES) -> dict[str, Json]:
    """``read_object`` for signed material of our own: the bytes must be the RFC 8785 form of their value.

    Raises:
        NotCanonical: The value can be read, but is spelled in another way than RFC 8785 writes it.
        MalformedInput: See ``read``.
    """
    value = read_object(data, where=where, max_bytes=max_bytes)
    if write(value, where=where) != data:
        raise NotCanonical(
            "spaces, key order or escapes differ from the canonical form",
            where=where,
            expected="RFC 8785 (JCS)",
            remedy="Write the payload with an RFC 8785 library and sign those bytes",
        )
    return value


def write(value: object, *, where: str = "JSON") -> bytes:
    """The RFC 8785 bytes of a value made of None, bool, int, str, lists (or tuples) and dicts with text keys.

    Raises:
        MalformedInput: A float, an integer beyond 2^53 - 1, a lone surrogate, another type, or too deep.
    """
    _check_writable(value, where)
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # checked above
    except (ValueError, RecursionError) as error:  # rfc8785 0.1.4 lets UnicodeEncodeError through for keys
        raise MalformedInput("cannot be written as canonical JSON", where=where, got=str(error)) from None


class _Refusal(Exception):
    """Carries a reason out of a parser hook, where the artefact's name is not known."""

    def __init__(self, what: str, got: str, expected: str) -> None:
        super().__init__(what)
        self.what, self.got, self.expected = what, got, expected


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Refusal("duplicate key", twice, "each key once")
    return members


def _no_float(text: str) -> Json:
    raise _Refusal("floats, exponents, NaN and infinities are refused", text, "an integer or a decimal string")


def _safe_integer(text: str) -> int:
    if text == "-0" or len(text) > _MAX_DIGITS or abs(int(text)) > MAX_SAFE_INTEGER:
        raise _Refusal("integer that readers may not agree on", text[:40], "at most 2^53 - 1, no -0")
    return int(text)


def _check_depth(data: bytes, where: str, limit: int) -> None:
    depth = 0
    for token in _TOKENS.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            if depth > limit:
                raise InputTooLarge("nested too deeply", where=where, expected=f"at most {limit} levels")
        elif first in b"]}":
            depth -= 1


def _check_text(value: Json, where: str) -> None:
    """Lone surrogates arrive as escapes: the bytes are UTF-8, the text they spell has no UTF-8 form."""
    pending: list[Json] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if not _encodable(item):
                raise MalformedInput("lone surrogate", where=where, expected="text that has a UTF-8 form")
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item.keys())
            pending.extend(item.values())


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_writable(value: object, where: str) -> None:
    pending: list[tuple[object, int]] = [(value, 1)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_DEPTH + 1:
            raise MalformedInput("nested too deeply", where=where, expected=f"at most {MAX_DEPTH} levels")
        if isinstance(item, dict):
            pending.extend((member, depth + 1) for member in item.values())
        elif isinstance(item, list | tuple):
            pending.extend((member, depth + 1) for member in item)
        elif isinstance(item, float):
            raise MalformedInput("floats are refused", where=where, got=item, expected="a decimal string")
