"""Programs and inputs drawn so that the answer has to be worked out.

A drawn program is a chain: each line uses the value of the line before, so none is idle. It is kept when on the drawn
input it does not fault, its output is no copy of the input, changes with most entries of the input, and differs
between inputs; else the next try is drawn from a stream of its own. How many tries it takes is part of the draw and the
same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from attest.errors import AttestError
from attest.seeds.draw import Draw

from .errors import ProgramFault
from .language import BINARY, DIVISOR, PLAIN, PREDICATE, SIGNATURES, UNARY, Line, Program, Value, name_of, run

TRIES: Final = 2_000
OF_LIST: Final = tuple(name for name, signature in SIGNATURES.items() if "l" in signature.partition(">")[0])
OF_INTEGER: Final = tuple(name for name, signature in SIGNATURES.items() if "i" in signature.partition(">")[0])
ENDING: Final = tuple(name for name, signature in SIGNATURES.items() if signature.endswith(">i"))


@dataclass(frozen=True)
class Size:
    """How large a task is.

    Args:
        lines: Lines of the program.
        length: Entries of an input.
        magnitude: Largest |entry|.
    """

    lines: int
    length: int
    magnitude: int


SIZES: Final = {1: Size(2, 4, 9), 2: Size(3, 5, 20), 3: Size(4, 6, 30), 4: Size(6, 7, 50), 5: Size(8, 8, 99)}


def tries(draw: Draw) -> Iterator[Draw]:
    """Streams for one try after another.

    Raises:
        AttestError: None of ``TRIES`` was good, which has never been seen.
    """
    for number in range(TRIES):
        yield draw.fork(f"try {number}")
    raise AttestError("no task was found", where="task generator", got=f"{TRIES} tries")


def draw_input(draw: Draw, size: Size) -> tuple[int, ...]:
    """A list of ``size.length`` integers."""
    return tuple(draw.between(-size.magnitude, size.magnitude) for _ in range(size.length))


def draw_program(draw: Draw, lines: int) -> Program:
    """A chain of ``lines`` operations; an integer comes early only to be used again."""
    kinds, made = ["l"], []
    for place in range(lines):
        operation = _operation(draw, kinds[-1], last=place == lines - 1)
        wanted, _, kind = SIGNATURES[operation].partition(">")
        made.append(Line(operation, _arguments(draw, wanted, kinds)))
        kinds.append(kind)
    return Program(tuple(made))


def outcome(program: Program, given: tuple[int, ...]) -> Value | None:
    """The output, None for a fault."""
    try:
        return run(program, given)
    except ProgramFault:
        return None


def telling(program: Program, given: tuple[int, ...], others: list[tuple[int, ...]]) -> bool:
    """Whether the output on ``given`` is worth asking for."""
    output = outcome(program, given)
    if output is None or output == given or (isinstance(output, tuple) and not 2 <= len(output) <= 24):
        return False
    moved = sum(outcome(program, (*given[:i], given[i] + 1, *given[i + 1 :])) != output for i in range(len(given)))
    if 2 * moved < len(given):
        return False
    outputs = [outcome(program, other) for other in others]
    return sum(found != output for found in outputs) * 4 >= 3 * len(others)


def _operation(draw: Draw, kind: str, *, last: bool) -> str:
    """An integer result is drawn seldom before the last line, for what follows it is narrow."""
    usable = OF_LIST if kind == "l" else OF_INTEGER
    while True:
        operation = draw.choice(usable)
        if last or operation not in ENDING or draw.below(4) == 0:
            return operation


def _arguments(draw: Draw, wanted: str, kinds: list[str]) -> tuple[str, ...]:
    """The newest value goes to one place that takes it; other places take any value that fits."""
    places = [place for place, kind in enumerate(wanted) if kind == kinds[-1]]
    newest = draw.choice(places)
    return tuple(
        name_of(len(kinds) - 1) if place == newest else _argument(draw, kind, kinds)
        for place, kind in enumerate(wanted)
    )


def _argument(draw: Draw, kind: str, kinds: list[str]) -> str:
    if kind == "b":
        return draw.choice(tuple(BINARY))
    if kind in "up":
        name = draw.choice(tuple(UNARY if kind == "u" else PREDICATE))
        if name in PLAIN:
            return name
        return f"{name}:{draw.between(2, 9) if name in DIVISOR else _number(draw)}"
    fitting = [name_of(place) for place, found in enumerate(kinds) if found == kind]
    if kind == "i" and (not fitting or draw.below(2) == 0):
        return str(draw.between(1, 5))
    return draw.choice(fitting)


def _number(draw: Draw) -> int:
    """-9 to 9 without 0 and 1, which would do nothing."""
    number = draw.between(-9, 7)
    return number if number < 0 else number + 2
