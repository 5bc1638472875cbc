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


@pytest.mark.parametrize(
    "items",
    ["sat=0", "sat=²", "sat=-1", "sat=1000001", "sat", "=1", "sat/9=1", "sat/1/2=1", "nope=999999", "x" * 600 + "=1"],
)
def test_amounts_that_make_no_sense_are_usage(run, items):
    code, out, err = run("--seed", SEED, "--items", "lists=1", "--items", items)
    assert (code, out) == (2, "")
    assert "--items" in err


@pytest.mark.parametrize("seed", ["", "ab" * 33, "\u00e9" * 64, "ab " * 21 + "a", "0x" + "ab" * 31])
def test_seeds_that_are_none_are_usage(run, seed):
    assert run("--seed", seed, "--items", "sat=1")[0] == 2


def test_devices_and_folders_are_no_files(run, tmp_path):
    assert run("/dev/zero")[0] == 3
    assert run(tmp_path)[0] == 3


@pytest.mark.parametrize("name", ["\x1b[31m", "\ud800", "sat\x00"])
def test_names_of_a_hostile_file_reach_no_terminal(run, tmp_path, name):
    file = tmp_path / "items.json"
    file.write_text(json.dumps([{"environment": name, "key": SEED, "id": name}]))
    code, out, err = run(file)
    assert (code, out) == (0, "")
    assert "\x1b" not in err
    assert "passed over" in err


def test_numbers_that_json_lacks_do_not_come_out_again(run, tmp_path):
    file = tmp_path / "items.json"
    file.write_text('[{"environment": "sat", "key": "%s", "id": NaN, "index": 1e999}]' % SEED)  # noqa: UP031
    for words in ([], ["--json"]):
        code, out, _ = run(file, *words)
        assert code in (0, 3)
        assert "NaN" not in out
        assert "Infinity" not in out


def test_usage(run, tmp_path):
    assert run("--seed", SEED, "--items", "sat=1", "--items", "sat=2")[0] == 2
    assert run()[0] == 2
    assert run("--seed", "ab")[0] == 2
    assert run("--seed", SEED, "--items", "sat=x")[0] == 2
    assert run(tmp_path / "none.json")[0] == 4
    assert run("--digest")[1].strip() == generator_digest()
