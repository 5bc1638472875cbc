from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import MalformedInput
from attest.seeds.draw import Draw
from attest.seeds.tasks.errors import ProgramFault
from attest.seeds.tasks.language import MEANING, SIGNATURES, parse, run
from attest.seeds.tasks.programs import draw_program

GIVEN = [3, -1, 4, 1, -5, 9, 2, 6]


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("map add:2 a", (5, 1, 6, 3, -3, 11, 4, 8)),
        ("map mul:-1 a", (-3, 1, -4, -1, 5, -9, -2, -6)),
        ("map div:2 a", (1, -1, 2, 0, -3, 4, 1, 3)),
        ("map mod:3 a", (0, 2, 1, 1, 1, 0, 2, 0)),
        ("map abs a", (3, 1, 4, 1, 5, 9, 2, 6)),
        ("map square a", (9, 1, 16, 1, 25, 81, 4, 36)),
        ("filter odd a", (3, -1, 1, -5, 9)),
        ("filter divides:3 a", (3, 9, 6)),
        ("filter above:2 a", (3, 4, 9, 6)),
        ("scan add a", (3, 2, 6, 7, 2, 11, 13, 19)),
        ("zip sub a a", (0,) * 8),
        ("diff a", (-4, 5, -3, -6, 14, -7, 4)),
        ("unique a", tuple(GIVEN)),
        ("take -1 a", ()),
        ("drop 6 a", (2, 6)),
        ("rotate -1 a", (6, 3, -1, 4, 1, -5, 9, 2)),
        ("every 3 a", (3, 1, 2)),
        ("sort a", (-5, -1, 1, 2, 3, 4, 6, 9)),
        ("count below:3 a", 4),
        ("last a", 6),
        ("max a", 9),
    ],
)
def test_operations_do_what_their_description_says(line, output):
    assert run(parse(f"b = {line}"), GIVEN) == output


def test_lines_build_on_each_other():
    assert run(parse("b = sum a\nc = calc min b 5\nd = take c a\ne = join d d\nf = len e"), GIVEN) == 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b = shout a",
        "c = sum a",
        "b = map add a",
        "b = map add:1:2 a",
        "b = map div:0 a",
        "b = map mod:1 a",
        "b = map neg:2 a",
        "b = sum b",
        "b = sum a\nc = sum b",
        "b = take a a",
        "b =  sum a",
        "b = sum a ",
        "b = take 99999999 a",
        "b = __import__ a",
        "\n".join(f"{'bcdefghijklmnopqrstuvwxyz'[i]} = sort a" for i in range(25)),
    ],
)
def test_what_is_no_program_is_refused(text):
    with pytest.raises(MalformedInput):
        parse(text)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("b = max a", []),
        ("b = every 0 a", [1]),
        ("b = sum a", [1_000_001]),
        ("b = scan mul a", [100] * 6),
        ("b = join a a\nc = join b b", [1] * 20),
        ("b = sum a", [1] * 65),
    ],
)
def test_a_run_that_leaves_its_bounds_faults(text, given):
    with pytest.raises(ProgramFault):
        run(parse(text), given)


@given(st.binary(min_size=32, max_size=32), st.integers(1, 12), st.lists(st.integers(-99, 99), max_size=10))
def test_drawn_programs_read_back_use_every_line_and_always_end(key, lines, given):
    program = draw_program(Draw(key), lines)
    assert parse(str(program)) == program
    for place, line in enumerate(program.lines):
        assert "abcdefghijklmnop"[place] in line.arguments
    try:
        output = run(program, given)
    except ProgramFault:
        return
    assert isinstance(output, int | tuple)


def test_every_operation_is_described():
    assert set(MEANING) == set(SIGNATURES)
    assert all(text.startswith(name) for name, text in MEANING.items())
