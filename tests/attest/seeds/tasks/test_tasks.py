"""Tasks and their checkers: right answers pass, others fail, and nothing that a model writes is run."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import MalformedInput
from attest.seeds.tasks import registry
from attest.seeds.tasks.answers import integers, read
from attest.seeds.tasks.registry import GENERATORS, check, generator_digest, make
from attest.seeds.tasks.task import LEVELS, Verdict

KEYS = [sha256(bytes([i])).digest() for i in range(6)]
EVERY = pytest.mark.parametrize("environment", [f"{name}/{level}" for name in GENERATORS for level in LEVELS])


@EVERY
def test_the_reference_answer_is_right_and_the_prompt_does_not_hold_it(environment):
    for key in KEYS:
        task = make(environment, key)
        assert check(task, task.solution) is Verdict.RIGHT
        assert check(task, f"I think so.\nANSWER: [1]\n\n**Answer:** `{task.solution[8:]}`.") is Verdict.RIGHT
        assert task.solution not in task.prompt
        assert json.loads(json.dumps(task.document())) == task.document()


@EVERY
def test_other_answers_are_wrong_or_unreadable(environment):
    for key in KEYS:
        task = make(environment, key)
        for answer in ("ANSWER: []", "ANSWER: 1234567", "ANSWER: [[1],[2],[3]]", "ANSWER: [999999]"):
            assert check(task, answer) is not Verdict.RIGHT
        for answer in ("", "ANSWER:", "no idea", "ANSWER: __import__('os')", "ANSWER: [1,", "ANSWER: " + "[" * 100_000):
            assert check(task, answer) is Verdict.UNREADABLE


@given(st.text(max_size=300))
@settings(max_examples=25)
def test_no_text_breaks_a_checker(text):
    for name in GENERATORS:
        assert check(TASKS[name], text) in Verdict
        assert check(TASKS[name], f"ANSWER: {text}") in Verdict


TASKS = {name: make(f"{name}/2", KEYS[0]) for name in GENERATORS}


def test_any_input_that_gives_the_output_is_right():
    found = 0
    for index in range(40):
        task = make("abduction/1", sha256(f"other {index}".encode()).digest())
        given = integers(task.solution)
        for place in range(len(given)):
            for value in (-9, 0, 9):
                other = [*given[:place], value, *given[place + 1 :]]
                if other != given and check(task, f"ANSWER: {other}") is Verdict.RIGHT:
                    found += 1
    assert found > 0


def test_an_answer_outside_the_bounds_is_wrong():
    task = TASKS["abduction"]
    assert check(task, f"ANSWER: {[0] * (task.facts['length'] + 1)}") is Verdict.WRONG
    assert check(task, f"ANSWER: [{task.facts['magnitude'] + 1}]") is Verdict.WRONG


def test_every_variable_is_assigned_once():
    task = TASKS["sat"]
    values = integers(task.solution)
    assert check(task, f"ANSWER: {values[:-1]}") is Verdict.WRONG
    assert check(task, f"ANSWER: {[*values, values[0]]}") is Verdict.WRONG
    assert check(task, f"ANSWER: {[-v for v in values]}") is Verdict.RIGHT  # drawn so, see the module
    for place in range(len(values)):
        flipped = [-v if i == place else v for i, v in enumerate(values)]
        wrong = any(all(x not in flipped for x in clause) for clause in task.facts["clauses"])
        assert (check(task, f"ANSWER: {flipped}") is Verdict.WRONG) == wrong


def test_the_same_key_gives_the_same_task_and_another_key_another():
    made = {make(name, key).digest() for name in GENERATORS for key in KEYS}
    assert made == {make(name, key).digest() for name in GENERATORS for key in KEYS}
    assert len(made) == len(GENERATORS) * len(KEYS)
    assert {make("sat", sha256(bytes([i])).digest()).level for i in range(40)} == set(LEVELS)


@pytest.mark.parametrize("environment", ["", "chess", "sat/", "sat/0", "sat/6", "sat/01", "sat/\u0661"])
def test_an_environment_that_is_not_there_is_refused(environment):
    with pytest.raises(MalformedInput, match="no such environment"):
        make(environment, KEYS[0])


def test_the_generator_digest_covers_every_source(monkeypatch, tmp_path):
    here = registry.__file__
    before = generator_digest()
    copy = tmp_path / "seeds" / "tasks"
    copy.mkdir(parents=True)
    from pathlib import Path

    source = Path(here).parent
    for path in source.glob("*.py"):
        (copy / path.name).write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    for name in ("derive.py", "draw.py"):
        (copy.parent / name).write_bytes((source.parent / name).read_bytes())
    monkeypatch.setattr(registry, "__file__", str(copy / "registry.py"))
    assert generator_digest() == before  # line ends do not matter
    for path in [*copy.glob("*.py"), copy.parent / "draw.py"]:
        kept = path.read_bytes()
        path.write_bytes(kept + b"#")
        assert generator_digest() != before, path
        path.write_bytes(kept)


@pytest.mark.parametrize(
    ("text", "depth", "value"),
    [
        ("7", 0, 7),
        ("[]", 1, []),
        ("[1, -2,3]", 1, [1, -2, 3]),
        ("[[1], [], [2,3]]", 2, [[1], [], [2, 3]]),
        ("ANSWER: 1\nANSWER: 2", 0, 2),
        ("[1,]", 1, None),
        ("[,1]", 1, None),
        ("[1 2]", 1, None),
        ("[1][2]", 1, None),
        ("[[1]]", 1, None),
        ("1.5", 1, None),
        ("1e3", 1, None),
        ("9" * 13, 0, None),
        ("]", 1, None),
        ("[1, [2]", 2, None),
    ],
)
def test_answers_are_integers_and_lists_of_them(text, depth, value):
    assert read(text, depth=depth) == value
