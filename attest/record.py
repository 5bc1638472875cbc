"""Signed records: frozen dataclasses whose fields say, once, how they are read, written and described.

Each field is ``Annotated`` with a ``Kind``. From that one declaration come the strict reader (no missing and no
unknown members, every value within its bounds), the writer, and the JSON schema published under ``docs/schemas``; so
the schema is the authority and cannot drift from the code. A record that exists is valid: the same checks run when it
is built.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self, get_type_hints

from attest.canonical import MAX_SAFE_INTEGER, Json
from attest.errors import AttestError, InputTooLarge, MalformedInput
from attest.keys import ss58

MAX_TEXT: Final = 4096
MAX_ITEMS: Final = 4096

Schema = dict[str, Any]


class Kind:
    """One form of value: how it is read from JSON, written to it, and described by JSON Schema 2020-12."""

    def read(self, value: Json, where: str) -> Any:
        """The Python value, or ``MalformedInput`` naming ``where``."""
        raise NotImplementedError

    def write(self, value: Any) -> Json:
        """The JSON value of a Python value that ``check`` accepts."""
        return value  # type: ignore[no-any-return]

    def check(self, value: Any, where: str) -> None:
        """Refuse a Python value that cannot be written; scalars are their own JSON."""
        self.read(value, where)

    def json_schema(self) -> Schema:
        """JSON Schema 2020-12 of the JSON value."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Text(Kind):
    """Text matching ``pattern`` (anchored at both ends; ECMA-compatible), of bounded length."""

    pattern: str | None = None
    maximum: int = MAX_TEXT
    minimum: int = 0

    def read(self, value: Json, where: str) -> str:
        """The text itself."""
        if not isinstance(value, str):
            raise MalformedInput("not text", where=where, got=type(value).__name__)
        if not self.minimum <= len(value) <= self.maximum:
            raise MalformedInput(
                "text of a wrong length", where=where, got=len(value), expected=f"{self.minimum}..{self.maximum}"
            )
        if self.pattern is not None and not re.fullmatch(self.pattern, value, re.ASCII):
            raise MalformedInput("text of a wrong form", where=where, got=value, expected=self.pattern)
        return value

    def json_schema(self) -> Schema:
        """String with bounds and pattern."""
        schema: Schema = {"type": "string", "maxLength": self.maximum}
        if self.minimum:
            schema["minLength"] = self.minimum
        if self.pattern is not None:
            schema["pattern"] = f"^(?:{self.pattern})$"
        return schema


@dataclasses.dataclass(frozen=True)
class Integer(Kind):
    """An integer within bounds; never a bool."""

    minimum: int = 0
    maximum: int = MAX_SAFE_INTEGER

    def read(self, value: Json, where: str) -> int:
        """The integer itself."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise MalformedInput("not an integer", where=where, got=type(value).__name__)
        if not self.minimum <= value <= self.maximum:
            raise MalformedInput(
                "integer out of range", where=where, got=value, expected=f"{self.minimum}..{self.maximum}"
            )
        return value

    def json_schema(self) -> Schema:
        """Integer with bounds."""
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclasses.dataclass(frozen=True)
class Flag(Kind):
    """True or false."""

    def read(self, value: Json, where: str) -> bool:
        """The bool itself."""
        if not isinstance(value, bool):
            raise MalformedInput("not true or false", where=where, got=type(value).__name__)
        return value

    def json_schema(self) -> Schema:
        """Boolean."""
        return {"type": "boolean"}


@dataclasses.dataclass(frozen=True)
class Time(Kind):
    """UTC time to the second, ``2026-11-30T12:00:00Z``; one spelling for each instant, leap seconds refused."""

    PATTERN = r"20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z"

    def read(self, value: Json, where: str) -> str:
        """The text itself, once the calendar agrees."""
        text = Text(self.PATTERN, 20).read(value, where)
        try:
            datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise MalformedInput("no such time", where=where, got=text, expected="YYYY-MM-DDTHH:MM:SSZ") from None
        return text

    def json_schema(self) -> Schema:
        """String with pattern; ``format`` adds the calendar."""
        return Text(self.PATTERN, 20).json_schema() | {"format": "date-time"}


@dataclasses.dataclass(frozen=True)
class Address(Kind):
    """An SS58 address in its signed form, prefix 42."""

    def read(self, value: Json, where: str) -> str:
        """The text itself; an address of another prefix is refused, not translated."""
        text = Text(r"[1-9A-HJ-NP-Za-km-z]+", 48, 46).read(value, where)
        try:
            prefix, _ = ss58.decode(text)
        except AttestError as error:
            raise MalformedInput(error.what, where=where, got=text) from None
        if prefix != ss58.PREFIX:
            raise MalformedInput("address of another prefix", where=where, got=prefix, expected=ss58.PREFIX)
        return text

    def json_schema(self) -> Schema:
        """String; its checksum cannot be said in a schema."""
        return Text(r"[1-9A-HJ-NP-Za-km-z]+", 48, 46).json_schema()


@dataclasses.dataclass(frozen=True)
class Choice(Kind):
    """One word of an enum."""

    words: type[StrEnum]

    def read(self, value: Json, where: str) -> StrEnum:
        """The enum's member."""
        if not isinstance(value, str) or value not in tuple(self.words):
            raise MalformedInput("unknown word", where=where, got=value, expected=" | ".join(self.words))
        return self.words(value)

    def write(self, value: Any) -> Json:
        """The word."""
        return str(value)

    def json_schema(self) -> Schema:
        """Enumeration."""
        return {"enum": [str(word) for word in self.words]}


@dataclasses.dataclass(frozen=True)
class Nullable(Kind):
    """``inner`` or null; null is always written, never left out."""

    inner: Kind

    def read(self, value: Json, where: str) -> Any:
        """None or what ``inner`` reads."""
        return None if value is None else self.inner.read(value, where)

    def write(self, value: Any) -> Json:
        """Null or what ``inner`` writes."""
        return None if value is None else self.inner.write(value)

    def check(self, value: Any, where: str) -> None:
        """None or what ``inner`` accepts."""
        if value is not None:
            self.inner.check(value, where)

    def json_schema(self) -> Schema:
        """Either of two."""
        return {"anyOf": [self.inner.json_schema(), {"type": "null"}]}


@dataclasses.dataclass(frozen=True)
class ListOf(Kind):
    """A list (a tuple in Python) of bounded length; ``unique`` refuses the same item twice."""

    inner: Kind
    maximum: int = MAX_ITEMS
    minimum: int = 0
    unique: bool = False

    def read(self, value: Json, where: str) -> tuple[Any, ...]:
        """The items as a tuple."""
        if not isinstance(value, list):
            raise MalformedInput("not a list", where=where, got=type(value).__name__)
        self._check_length(value, where)
        return self._distinct(tuple(self.inner.read(item, f"{where}[{i}]") for i, item in enumerate(value)), where)

    def write(self, value: Any) -> Json:
        """The items as a list."""
        return [self.inner.write(item) for item in value]

    def check(self, value: Any, where: str) -> None:
        """Refuse anything but a tuple of good items."""
        if not isinstance(value, tuple):
            raise MalformedInput("not a tuple", where=where, got=type(value).__name__)
        self._check_length(value, where)
        for i, item in enumerate(value):
            self.inner.check(item, f"{where}[{i}]")
        self._distinct(value, where)

    def json_schema(self) -> Schema:
        """Array with bounds."""
        schema: Schema = {"type": "array", "items": self.inner.json_schema(), "maxItems": self.maximum}
        if self.minimum:
            schema["minItems"] = self.minimum
        return schema | ({"uniqueItems": True} if self.unique else {})

    def _check_length(self, items: list[Json] | tuple[Any, ...], where: str) -> None:
        if len(items) > self.maximum:
            raise InputTooLarge("too many items", where=where, got=len(items), expected=f"at most {self.maximum}")
        if len(items) < self.minimum:
            raise MalformedInput("too few items", where=where, got=len(items), expected=f"at least {self.minimum}")

    def _distinct(self, items: tuple[Any, ...], where: str) -> tuple[Any, ...]:
        if self.unique and len(set(items)) != len(items):
            raise MalformedInput("the same item twice", where=where, expected="distinct items")
        return items


@dataclasses.dataclass(frozen=True)
class Nested(Kind):
    """Another record."""

    record: type[Record]

    def read(self, value: Json, where: str) -> Record:
        """The record."""
        return self.record.read(value, where=where)

    def write(self, value: Any) -> Json:
        """Its members."""
        return value.write()  # type: ignore[no-any-return]

    def check(self, value: Any, where: str) -> None:
        """A built record is valid; only its type can be wrong."""
        if not isinstance(value, self.record):
            raise MalformedInput("another record", where=where, got=type(value).__name__, expected=self.record.__name__)

    def json_schema(self) -> Schema:
        """The record's schema, inline."""
        return self.record.json_schema()


@dataclasses.dataclass(frozen=True)
class Record:
    """Base of every signed record; subclasses are frozen dataclasses with ``Annotated`` fields."""

    def __post_init__(self) -> None:
        for name, kind in kinds(type(self)).items():
            kind.check(getattr(self, name), f"{type(self).__name__}.{name}")
        self.agree()

    def agree(self) -> None:
        """Checks between fields; overridden where a record has any."""

    @classmethod
    def read(cls, value: Json, *, where: str = "") -> Self:
        """Build the record from parsed JSON.

        Raises:
            MalformedInput: Not an object, a member missing or unknown, or a value out of its bounds.
        """
        where = where or cls.__name__
        if not isinstance(value, dict):
            raise MalformedInput("not an object", where=where, got=type(value).__name__, expected=cls.__name__)
        fields = kinds(cls)
        _same_members(value, fields, where)
        return cls(**{name: kind.read(value[name], f"{where}.{name}") for name, kind in fields.items()})

    def write(self) -> dict[str, Json]:
        """The record's members, every one of them."""
        return {name: kind.write(getattr(self, name)) for name, kind in kinds(type(self)).items()}

    @classmethod
    def json_schema(cls) -> Schema:
        """JSON Schema 2020-12: all members required, no others allowed."""
        fields = kinds(cls)
        return {
            "type": "object",
            "title": cls.__name__,
            "description": (cls.__doc__ or "").split("\n")[0],
            "properties": {name: kind.json_schema() for name, kind in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }


_KINDS: Final[dict[type[Record], Mapping[str, Kind]]] = {}


def kinds(record: type[Record]) -> Mapping[str, Kind]:
    """Field names of a record with their kinds, in order of declaration; worked out once for each class."""
    if record not in _KINDS:
        hints = get_type_hints(record, include_extras=True)
        _KINDS[record] = {field.name: _kind_of(hints[field.name]) for field in dataclasses.fields(record)}
    return _KINDS[record]


def _kind_of(hint: Any) -> Kind:
    found = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Kind)]
    if len(found) != 1:
        raise TypeError(f"a record's field needs one Kind, got {hint!r}")
    return found[0]


def _same_members(value: dict[str, Json], fields: Mapping[str, Kind], where: str) -> None:
    missing = [name for name in fields if name not in value]
    unknown = [name for name in value if name not in fields]
    if missing:
        raise MalformedInput("a member is missing", where=where, got=sorted(value), expected=missing[0])
    if unknown:
        raise MalformedInput("an unknown member", where=where, got=unknown[0], expected=", ".join(fields))
