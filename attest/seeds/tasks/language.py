"""A small language of list programs, and an interpreter that always ends.

A program is lines ``b = map add:3 a``: each names a new value, made by one operation from earlier ones. The input is
``a``, a list of integers; the last line's value is the output, a list or an integer. There are no loops and no calls,
each operation passes over its lists once (``sort`` and ``unique`` too, as counted here), and lists, values and steps
are bounded, so a program's cost is known before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from attest.errors import MalformedInput

from .errors import ProgramFault

MAX_LINES: Final = 24
MAX_LENGTH: Final = 64
"""Longest list."""
MAX_VALUE: Final = 1_000_000
"""Largest |integer|."""
MAX_STEPS: Final = 10_000
"""Most list entries that a run may touch."""

Value = int | tuple[int, ...]
UNARY: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda x, k: x + k,
    "mul": lambda x, k: x * k,
    "div": lambda x, k: x // k,
    "mod": lambda x, k: x % k,
    "neg": lambda x, k: -x,
    "abs": lambda x, k: abs(x),
    "square": lambda x, k: x * x,
}
PREDICATE: Final[dict[str, Callable[[int, int], bool]]] = {
    "even": lambda x, k: x % 2 == 0,
    "odd": lambda x, k: x % 2 == 1,
    "above": lambda x, k: x > k,
    "below": lambda x, k: x < k,
    "divides": lambda x, k: x % k == 0,
}
BINARY: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "min": lambda x, y: min(x, y),
    "max": lambda x, y: max(x, y),
}
PLAIN: Final = ("neg", "abs", "square", "even", "odd")
"""Functions without a number."""
DIVISOR: Final = ("div", "mod", "divides")
"""Functions whose number is at least 2."""
SIGNATURES: Final[dict[str, str]] = {
    # u unary function, p predicate, b binary function, l list, i integer or literal; after > the result
    "map": "ul>l",
    "filter": "pl>l",
    "scan": "bl>l",
    "zip": "bll>l",
    "join": "ll>l",
    "reverse": "l>l",
    "sort": "l>l",
    "unique": "l>l",
    "diff": "l>l",
    "take": "il>l",
    "drop": "il>l",
    "rotate": "il>l",
    "every": "il>l",
    "count": "pl>i",
    "sum": "l>i",
    "max": "l>i",
    "min": "l>i",
    "len": "l>i",
    "first": "l>i",
    "last": "l>i",
    "calc": "bii>i",
}
MEANING: Final[dict[str, str]] = {
    "map": "map F L: F of every entry; add:k, mul:k, div:k (rounded down), mod:k (never negative), neg, abs, square",
    "filter": "filter P L: the entries for which P holds; even, odd, above:k, below:k, divides:k (k divides the entry)",
    "scan": "scan B L: running results; the first entry, then B of the last result and the next entry",
    "zip": "zip B L M: B of entries at the same place, as far as the shorter list goes; add, sub, mul, min, max",
    "join": "join L M: the entries of L, then those of M",
    "reverse": "reverse L: the entries from the last to the first",
    "sort": "sort L: the entries in ascending order",
    "unique": "unique L: each value once, where it comes first",
    "diff": "diff L: every entry but the first, less the one before it",
    "take": "take N L: the first N entries (all when there are fewer, none when N is negative)",
    "drop": "drop N L: all but the first N entries (all when N is negative)",
    "rotate": "rotate N L: the entry at place N (from 0, modulo the length) comes first, the rest follow in a circle",
    "every": "every N L: the entries at places 0, N, 2N and so on; N is at least 1",
    "count": "count P L: how many entries P holds for; even, odd, above:k, below:k, divides:k (k divides the entry)",
    "sum": "sum L: the sum of the entries",
    "max": "max L: the largest entry",
    "min": "min L: the smallest entry",
    "len": "len L: the number of entries",
    "first": "first L: the first entry",
    "last": "last L: the last entry",
    "calc": "calc B X Y: B of two integers; add, sub, mul, min, max",
}
_NAME: Final = re.compile(r"[a-z]", re.ASCII)
_LITERAL: Final = re.compile(r"-?[0-9]{1,7}", re.ASCII)
_FUNCTIONS: Final = {"u": tuple(UNARY), "p": tuple(PREDICATE), "b": tuple(BINARY)}


@dataclass(frozen=True)
class Line:
    """``name = operation arguments``; the name is the line's place in the alphabet."""

    operation: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """Lines in order; line n makes the value with the n-th letter after ``a``."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{name_of(place + 1)} = {' '.join((line.operation, *line.arguments))}"
            for place, line in enumerate(self.lines)
        )


def name_of(place: int) -> str:
    """Name of the value at ``place``; the input is 0."""
    return "abcdefghijklmnopqrstuvwxyz"[place]


def parse(text: str) -> Program:
    """A program from its text.

    Raises:
        MalformedInput: Not a program; the message names the line.
    """
    rows = text.split("\n")
    if len(rows) > MAX_LINES:
        raise MalformedInput("program is too long", where="program", got=len(rows), expected=f"{MAX_LINES} lines")
    kinds, lines = ["l"], []
    for place, row in enumerate(rows, start=1):
        words = row.split(" ")
        signature = SIGNATURES.get(words[2]) if len(words) > 2 else None
        if signature is None or words[:2] != [name_of(place), "="]:
            raise _malformed(place, row)
        wanted, _, made = signature.partition(">")
        if len(words) - 3 != len(wanted) or not all(
            _fits(word, kind, kinds) for word, kind in zip(words[3:], wanted, strict=True)
        ):
            raise _malformed(place, row)
        kinds.append(made)
        lines.append(Line(words[2], tuple(words[3:])))
    return Program(tuple(lines))


def run(program: Program, given: Sequence[int]) -> Value:
    """The output for an input.

    Raises:
        ProgramFault: A list, value or the run gets too long, or nothing is there to take from.
    """
    values: list[Value] = [_bounded(tuple(given))]
    steps = 0
    for line in program.lines:
        arguments = [_value(word, kind, values) for word, kind in zip(line.arguments, _wanted(line), strict=True)]
        steps += 1 + sum(len(a) for a in arguments if isinstance(a, tuple))
        if steps > MAX_STEPS:
            raise ProgramFault("too many steps", where="program", got=steps, expected=MAX_STEPS)
        values.append(_bounded(_apply(line, arguments)))
    return values[-1]


def _apply(line: Line, arguments: list[Value | str]) -> Value:
    operation, (head, *rest) = line.operation, arguments
    if operation in _OF_LIST:
        return _OF_LIST[operation](_list(head))
    if operation in _OF_COUNT:
        return _OF_COUNT[operation](_integer(head), _list(rest[0]))
    if operation == "join":
        return (*_list(head), *_list(rest[0]))
    name, _, number = str(head).partition(":")
    k = int(number or 0)
    if operation == "map":
        return tuple(UNARY[name](x, k) for x in _list(rest[0]))
    if operation == "filter":
        return tuple(x for x in _list(rest[0]) if PREDICATE[name](x, k))
    if operation == "count":
        return sum(PREDICATE[name](x, k) for x in _list(rest[0]))
    if operation == "zip":
        return tuple(BINARY[name](x, y) for x, y in zip(_list(rest[0]), _list(rest[1]), strict=False))
    if operation == "scan":
        return _scan(BINARY[name], _list(rest[0]))
    return BINARY[name](_integer(rest[0]), _integer(rest[1]))  # calc


def _scan(function: Callable[[int, int], int], entries: tuple[int, ...]) -> Value:
    made: list[int] = []
    for entry in entries:
        made.append(_within(function(made[-1], entry) if made else entry))
    return tuple(made)


def _some(entries: tuple[int, ...]) -> tuple[int, ...]:
    if not entries:
        raise ProgramFault("an empty list has no such entry", where="program")
    return entries


def _stride(number: int, entries: tuple[int, ...]) -> Value:
    if number < 1:
        raise ProgramFault("not a stride", where="program", got=number, expected="at least 1")
    return entries[::number]


def _turned(number: int, entries: tuple[int, ...]) -> Value:
    place = number % len(entries) if entries else 0
    return entries[place:] + entries[:place]


_OF_LIST: Final[dict[str, Callable[[tuple[int, ...]], Value]]] = {
    "reverse": lambda x: x[::-1],
    "sort": lambda x: tuple(sorted(x)),
    "unique": lambda x: tuple(dict.fromkeys(x)),
    "diff": lambda x: tuple(after - before for before, after in pairwise(x)),
    "sum": sum,
    "max": lambda x: max(_some(x)),
    "min": lambda x: min(_some(x)),
    "len": len,
    "first": lambda x: _some(x)[0],
    "last": lambda x: _some(x)[-1],
}
_OF_COUNT: Final[dict[str, Callable[[int, tuple[int, ...]], Value]]] = {
    "take": lambda n, x: x[: max(n, 0)],
    "drop": lambda n, x: x[max(n, 0) :],
    "rotate": _turned,
    "every": _stride,
}


def _wanted(line: Line) -> str:
    return SIGNATURES[line.operation].partition(">")[0]


def _value(word: str, kind: str, values: list[Value]) -> Value | str:
    if kind in _FUNCTIONS:
        return word
    return int(word) if _LITERAL.fullmatch(word) else values[ord(word) - ord("a")]


def _list(value: Value | str) -> tuple[int, ...]:
    if not isinstance(value, tuple):
        raise MalformedInput("not a list", where="program", got=value)
    return value


def _integer(value: Value | str) -> int:
    if not isinstance(value, int):
        raise MalformedInput("not an integer", where="program")
    return value


def _bounded(value: Value) -> Value:
    if isinstance(value, int):
        return _within(value)
    if len(value) > MAX_LENGTH:
        raise ProgramFault("list is too long", where="program", got=len(value), expected=MAX_LENGTH)
    for entry in value:
        _within(entry)
    return value


def _within(value: int) -> int:
    if not -MAX_VALUE <= value <= MAX_VALUE:
        raise ProgramFault("value is too large", where="program", expected=f"within {MAX_VALUE}")
    return value


def _fits(word: str, kind: str, kinds: list[str]) -> bool:
    if kind in _FUNCTIONS:
        name, mark, number = word.partition(":")
        if name not in _FUNCTIONS[kind]:
            return False
        if kind == "b" or name in PLAIN:
            return not mark
        return bool(_LITERAL.fullmatch(number)) and (name not in DIVISOR or int(number) >= 2)
    if kind == "i" and _LITERAL.fullmatch(word):
        return True
    return bool(_NAME.fullmatch(word)) and ord(word) - ord("a") < len(kinds) and kinds[ord(word) - ord("a")] == kind


def _malformed(place: int, row: str) -> MalformedInput:
    return MalformedInput("not a line of a program", where=f"program: line {place}", got=row)
