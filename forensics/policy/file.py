"""Reads policy files: TOML with a strict schema. What is unknown, missing, or forbidden by a hard rule is refused.

A misspelt key that is silently ignored is a rule that somebody believes in and nobody applies.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from detectors.evidence import decimal

from ..errors import PolicyInvalid, Unavailable
from . import hard
from .policy import SCHEMA, Detector, Keeps, Mode, Operators, Policy, Snapshots, Status

SIZE_LIMIT: Final = 1 << 18
"""Bytes; a policy is a page or two."""
DEFAULT: Final = Path(__file__).with_name("default.toml")
MOST_CODES: Final = 512
EXPIRES: Final = (60, 7 * 24 * 3600)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DETECTOR: Final = re.compile(r"[a-z][a-z0-9_-]*@[1-9][0-9]*")
_CODE: Final = re.compile(r"[a-z][a-z0-9_]*\.(?:\*|[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)")
_FRACTION: Final = re.compile(r"0(?:\.[0-9]{1,18})?|1(?:\.0{1,18})?")
_DECIMAL: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:e-[1-9][0-9]{0,2})?")
_ASSIGNABLE: Final = (Status.CLEAR, Status.WATCH, Status.HELD, Status.PENALISED, Status.REJECTED)
_E = TypeVar("_E", bound=StrEnum)
_T = TypeVar("_T")


def default() -> Policy:
    """The policy that is shipped."""
    return load(DEFAULT)


def load(path: Path) -> Policy:
    """The policy in a file.

    Raises:
        Unavailable: The file cannot be read.
        PolicyInvalid: It is no policy; the message names the key.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise Unavailable("cannot read the policy", where=str(path), got=error.strerror or str(error)) from None
    if len(raw) > SIZE_LIMIT:
        raise PolicyInvalid("policy is too large", where=str(path), expected=f"at most {SIZE_LIMIT} bytes")
    return parse(raw, where=str(path))


def parse(raw: bytes, *, where: str = "policy") -> Policy:
    """The policy in TOML bytes.

    Raises:
        PolicyInvalid: Not TOML, an unknown or missing key, a value out of range, or one that a hard rule forbids.
    """
    try:
        found = tomllib.loads(raw.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyInvalid("not TOML", where=where, got=str(error)[:200]) from None
    return _policy(_Table(found, where))


class _Table:
    """A TOML table whose every key must be taken; errors name the file and the dotted key."""

    def __init__(self, found: Mapping[str, Any], file: str, path: str = "") -> None:
        self._found, self._file, self._path = dict(found), file, path

    def where(self, key: str) -> str:
        return f"{self._file}: {self._path}{key}"

    def take(self, key: str, expected: str) -> Any:
        if key not in self._found:
            raise PolicyInvalid("a key is missing", where=self.where(key), expected=expected)
        return self._found.pop(key)

    def table(self, key: str) -> _Table:
        value = self.take(key, "a table")
        if not isinstance(value, dict):
            raise self.wrong(key, value, "a table")
        return _Table(value, self._file, f"{self._path}{key}.")

    def keys(self) -> list[str]:
        return sorted(self._found)

    def text(self, key: str, pattern: re.Pattern[str], expected: str) -> str:
        value = self.take(key, expected)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self.wrong(key, value, expected)
        return value

    def integer(self, key: str, least: int, most: int) -> int:
        expected = f"a whole number, {least} to {most}"
        value = self.take(key, expected)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(key, value, expected)
        return value

    def word(self, key: str, words: type[_E], allowed: tuple[_E, ...] = ()) -> _E:
        choices = allowed or tuple(words)
        expected = " | ".join(choices)
        value = self.take(key, expected)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, value, expected)
        return words(value)

    def done(self, expected: str) -> None:
        if self._found:
            raise PolicyInvalid("unknown key", where=self.where(self.keys()[0]), expected=expected)

    def wrong(self, key: str, value: object, expected: str) -> PolicyInvalid:
        return PolicyInvalid("wrong value", where=self.where(key), got=repr(value)[:80], expected=expected)


def _policy(top: _Table) -> Policy:
    top.text("schema", re.compile(re.escape(SCHEMA)), SCHEMA)
    policy = Policy(
        name=top.text("name", _NAME, "a short name in lower case"),
        version=top.integer("version", 1, 10**6),
        detectors=_each(top.table("detectors"), _DETECTOR, "name@version", _detector),
        findings=_findings(top.table("findings")),
        public_base=_public_base(top.table("copies")),
        multipliers=_multipliers(top.table("multipliers")),
        operators=_operators(top.table("operators")),
        snapshots=_snapshots(top.table("snapshots")),
    )
    top.done("schema, name, version, detectors, findings, copies, multipliers, operators, snapshots")
    return policy


def _each(table: _Table, pattern: re.Pattern[str], expected: str, read: Callable[[_Table], _T]) -> dict[str, _T]:
    names = table.keys()
    for name in names:
        if not pattern.fullmatch(name):
            raise PolicyInvalid("not a name", where=table.where(name), got=name[:80], expected=expected)
    return {name: read(table.table(name)) for name in names}


def _detector(table: _Table) -> Detector:
    mode = table.word("mode", Mode)
    decisive = _probability(table, "decisive", hard.FALSE_ACCUSATION, "rule 1")
    counts = _probability(table, "counts", hard.STATISTICAL, "rule 2")
    table.done("mode, decisive, counts")
    return Detector(mode, decisive=decisive, counts=counts)


def _probability(table: _Table, key: str, most: float, rule: str) -> str:
    expected = f'a decimal in quotes, at most "{decimal(most)}" ({rule} cannot be loosened)'
    value = table.text(key, _DECIMAL, expected)
    if Decimal(value) > Decimal(repr(most)):
        raise table.wrong(key, value, expected)
    return value


def _findings(table: _Table) -> dict[str, Status]:
    codes = table.keys()
    if len(codes) > MOST_CODES:
        raise PolicyInvalid("too many codes", where=table.where(""), got=len(codes), expected=f"at most {MOST_CODES}")
    found = {}
    for code in codes:
        if not _CODE.fullmatch(code):
            raise PolicyInvalid(
                "not a code", where=table.where(code), got=code[:80], expected="family.word or family.*"
            )
        found[code] = table.word(code, Status, _allowed(code.partition(".")[0]))
    return found


def _allowed(family: str) -> tuple[Status, ...]:
    """What codes of a family may lead to: hard rules 1, 3 and 4."""
    if family in hard.NEVER_COSTS:
        return _ASSIGNABLE[:3]
    return _ASSIGNABLE if family in hard.REJECTS else _ASSIGNABLE[:4]


def _public_base(table: _Table) -> Status:
    status = table.word("public_base", Status, _ASSIGNABLE[:4])
    table.done("public_base")
    return status


def _multipliers(table: _Table) -> dict[str, str]:
    names = table.keys()
    for key in (status.value for status in Status if status.value in names and status.value not in _COSTS):
        raise PolicyInvalid(
            f"what is {key} costs nothing (rules 2, 3 and 5), and no policy changes that", where=table.where(key)
        )
    found: dict[str, str] = {key: table.text(key, _FRACTION, "a decimal from 0 to 1 in quotes") for key in _COSTS}
    table.done(", ".join(_COSTS))
    if Decimal(found["graded"]) < Decimal(repr(hard.LEAST_GRADED)):
        expected = f'at least "{hard.LEAST_GRADED:g}": statistical evidence never takes everything (rule 2)'
        raise table.wrong("graded", found["graded"], expected)
    return found


_COSTS: Final = ("penalised", "graded", "rejected")


def _operators(table: _Table) -> Operators:
    found = Operators(table.integer("entries", 0, 4096), table.word("keeps", Keeps))
    table.done("entries, keeps")
    return found


def _snapshots(table: _Table) -> Snapshots:
    expires = table.integer("expires_seconds", *EXPIRES)
    found = Snapshots(expires, table.integer("renew_seconds", 1, expires - 1))
    table.done("expires_seconds, renew_seconds")
    return found
