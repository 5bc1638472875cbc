"""Abduction, deduction and induction over list programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from attest.errors import AttestError
from attest.seeds.draw import Draw

from . import answers
from .language import MEANING, Program, Value, parse, run
from .programs import SIZES, Size, draw_input, draw_program, outcome, telling, tries
from .task import Task, Verdict

PROBES: Final = 8
EASY: Final[tuple[tuple[int, ...], ...]] = ((0, 0, 0), (1, 1, 1), (0, 0, 0, 0))
"""Inputs that anybody would try first; an abduction task must not accept them."""
EXAMPLES: Final = {1: 8, 2: 8, 3: 9, 4: 10, 5: 10}
RULE_LINES: Final = {1: 1, 2: 2, 3: 2, 4: 3, 5: 4}
QUERIES: Final = 3
LANGUAGE: Final = (
    "A program is a list of lines. Each line gives a new value a name. The input is the list a. "
    "The value of the last line is the output.\nThe operations used:\n"
)
ENDING: Final = "\nYou may think first. End with one line: ANSWER: "


class Deduction:
    """Given a program and an input, predict the output."""

    name = "deduction"

    def make(self, draw: Draw, level: int) -> Task:
        """The task of this stream."""
        program, given = _puzzle(draw, SIZES[level], hard=False)
        output = run(program, given)
        prompt = (
            f"{_explained(program)}\n\nProgram:\n{program}\n\nInput: a = {_shown(given)}\n"
            f"What is the output?{ENDING}followed by the output, like {'[3, -1]' if isinstance(output, tuple) else '7'}"
        )
        facts = {"program": str(program), "input": list(given), "list": isinstance(output, tuple)}
        return Task(self.name, level, prompt, facts, f"ANSWER: {_shown(output)}")

    def check(self, task: Task, answer: str) -> Verdict:
        """Compare with what the program gives."""
        output = run(parse(task.facts["program"]), task.facts["input"])
        return _compare(answer, _plain(output), depth=1)


class Abduction:
    """Given a program and an output, find an input that gives it."""

    name = "abduction"

    def make(self, draw: Draw, level: int) -> Task:
        """The task of this stream."""
        size = SIZES[level]
        program, given = _puzzle(draw, size, hard=True)
        output = run(program, given)
        prompt = (
            f"{_explained(program)}\n\nProgram:\n{program}\n\nOutput: {_shown(output)}\n"
            f"Find an input a, a list of at most {2 * size.length} integers from {-10 * size.magnitude} to "
            f"{10 * size.magnitude}, that gives exactly this output.{ENDING}followed by the list, like [3, -1]"
        )
        bounds = {"length": 2 * size.length, "magnitude": 10 * size.magnitude}
        facts = {"program": str(program), "output": _plain(output), **bounds}
        return Task(self.name, level, prompt, facts, f"ANSWER: {_shown(given)}")

    def check(self, task: Task, answer: str) -> Verdict:
        """Run the program on the answer; any input that gives the output is right."""
        given = answers.integers(answer)
        if given is None:
            return Verdict.UNREADABLE
        if len(given) > task.facts["length"] or any(abs(v) > task.facts["magnitude"] for v in given):
            return Verdict.WRONG
        found = outcome(parse(task.facts["program"]), tuple(given))
        return Verdict.RIGHT if found is not None and _plain(found) == task.facts["output"] else Verdict.WRONG


class Lists:
    """Given examples of a function on lists, predict its outputs on new inputs."""

    name = "lists"

    def make(self, draw: Draw, level: int) -> Task:
        """The task of this stream."""
        size, number = SIZES[level], EXAMPLES[level] + QUERIES
        for attempt in tries(draw):
            program = draw_program(attempt, RULE_LINES[level])
            inputs = [
                draw_input(attempt, Size(0, attempt.between(3, size.length + 2), size.magnitude)) for _ in range(number)
            ]
            outputs = [outcome(program, given) for given in inputs]
            if _shows_a_rule(inputs, outputs):
                break
        made = [_plain(output) for output in outputs if output is not None]
        shown, asked = list(zip(inputs, made, strict=True))[:-QUERIES], inputs[-QUERIES:]
        examples = "\n".join(f"f({_shown(given)}) = {_shown(output)}" for given, output in shown)
        questions = "\n".join(f"f({_shown(given)}) = ?" for given in asked)
        prompt = (
            f"A function f takes a list of integers. Find its rule from the examples.\n\n{examples}\n\n{questions}\n"
            f"{ENDING}followed by a list of the {QUERIES} outputs in order, like "
            + ("[[3, -1], [5], []]" if isinstance(made[0], list) else "[7, 0, -2]")
        )
        facts = {"program": str(program), "queries": [list(given) for given in asked]}
        return Task(self.name, level, prompt, facts, f"ANSWER: {_shown(made[-QUERIES:])}")

    def check(self, task: Task, answer: str) -> Verdict:
        """Compare with what the hidden rule gives on all queries."""
        program = parse(task.facts["program"])
        wanted = [_plain(run(program, given)) for given in task.facts["queries"]]
        return _compare(answer, wanted, depth=2)


def _puzzle(draw: Draw, size: Size, *, hard: bool) -> tuple[Program, tuple[int, ...]]:
    for attempt in tries(draw):
        program, given = draw_program(attempt, size.lines), draw_input(attempt, size)
        others = [draw_input(attempt, size) for _ in range(PROBES)]
        if telling(program, given, others) and not (hard and _guessed(program, given)):
            return program, given
    raise AttestError("no task was found", where="task generator")  # tries() has raised before


def _guessed(program: Program, given: tuple[int, ...]) -> bool:
    """Whether the output says too little, or an input that needs no thought gives it too."""
    output = run(program, given)
    if isinstance(output, int) or len(output) < 3:
        return True
    return any(outcome(program, easy) == output for easy in (*EASY, output, output[::-1]))


def _shows_a_rule(inputs: list[tuple[int, ...]], outputs: list[Value | None]) -> bool:
    """No fault, outputs that differ, and few of them the input itself."""
    if any(output is None for output in outputs):
        return False
    distinct = [output for place, output in enumerate(outputs) if output not in outputs[:place]]
    same = sum(given == output for given, output in zip(inputs, outputs, strict=True))
    return 4 * len(distinct) >= 3 * len(outputs) and 4 * same <= len(outputs) and outputs[-1] != inputs[-1]


def _compare(answer: str, wanted: Any, *, depth: int) -> Verdict:
    found = answers.read(answer, depth=depth)
    if found is None:
        return Verdict.UNREADABLE
    return Verdict.RIGHT if found == wanted else Verdict.WRONG


def _explained(program: Program) -> str:
    used: Iterable[str] = dict.fromkeys(line.operation for line in program.lines)
    return LANGUAGE + "\n".join(f"- {MEANING[operation]}" for operation in used)


def _plain(value: Value) -> int | list[int]:
    return value if isinstance(value, int) else list(value)


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return "[" + ", ".join(_shown(entry) for entry in value) + "]"
