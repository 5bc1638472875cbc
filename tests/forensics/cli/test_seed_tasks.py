"""``forensics seeds tasks`` as it is typed."""

from __future__ import annotations

import json
from functools import partial

import pytest

from attest.seeds.derive import item_key
from attest.seeds.tasks.registry import check, generator_digest, make
from attest.seeds.tasks.task import Task, Verdict

SEED = "ab" * 32


@pytest.fixture
def run(run):
    return partial(run, "seeds", "tasks")


def test_a_seed_gives_one_task_a_line_and_nothing_of_the_solution(run):
    code, out, _ = run("--seed", SEED, "--items", "sat=2", "--items", "lists/1=1")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(line["environment"], line["index"]) for line in lines] == [("sat", 0), ("sat", 1), ("lists/1", 0)]
    assert lines[1]["digest"] == make("sat", item_key(bytes.fromhex(SEED), "sat", 1)).digest()
    assert not {"solution", "facts"} & set(lines[0])


def test_solutions_come_with_what_the_checker_needs(run):
    _, out, _ = run("--seed", SEED, "--items", "deduction=1", "--solutions", "--json")
    document = json.loads(out)
    (task,) = document["tasks"]
    whole = Task("deduction", task["level"], task["prompt"], task["facts"], task["solution"])
    assert check(whole, task["solution"]) is Verdict.RIGHT
    assert document["generator"] == generator_digest()


@pytest.mark.parametrize("lines", [True, False])
def test_a_handout_gives_the_tasks_of_its_keys(run, tmp_path, lines):
    key = item_key(bytes.fromhex(SEED), "sat", 5).hex()
    items = [{"environment": "sat", "id": "xyz", "key": key}, {"environment": "NAVWORLD", "id": "q", "key": key}]
    file = tmp_path / "items.json"
    text = "\n".join(map(json.dumps, items)) if lines else json.dumps({"schema": "any", "items": items})
    file.write_text(text)
    code, out, err = run(file)
    (task,) = map(json.loads, out.splitlines())
    assert code == 0
    assert task["id"] == "xyz"
    assert task["digest"] == make("sat", bytes.fromhex(key)).digest()
    assert "1 items of NAVWORLD passed over" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"environment": "sat", "key": "00"}', "item 1: not an item's key"),
        ('{"key": "00"}', "item 1: not an item"),
        ("not json", "line 1: not JSON"),
        ('{"items": 3}', "no list of items"),
        ("[" * 5000, "not JSON"),
    ],
)
def test_a_file_that_is_none_is_refused(run, tmp_path, text, message):
    file = tmp_path / "items.json"
    file.write_text(text)
    code, _, err = run(file)
    assert code == 3
    assert message in err


def test_usage(run, tmp_path):
    assert run()[0] == 2
    assert run("--seed", "ab")[0] == 2
    assert run("--seed", SEED, "--items", "sat=x")[0] == 2
    assert run(tmp_path / "none.json")[0] == 4
    assert run("--digest")[1].strip() == generator_digest()
