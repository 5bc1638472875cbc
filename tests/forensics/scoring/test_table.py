"""SCORES as people hand them in."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from attest.keys import ss58
from forensics.errors import BadInput, Unavailable
from forensics.scoring.field import Items, means_of
from forensics.scoring.table import read_table
from tests.forensics.client.world import address
from tests.forensics.scoring.fields import HEADER, bernoulli, policy, rows, write

GOOD = ("alice", "r1", 100, 0, "MATH", "q1", 0.5)


def drawn():
    return bernoulli(np.random.default_rng(1), np.array([0.2, 0.5, 0.8]), width=2, questions=8, missing=0.2)


def test_rows_in_any_order_and_both_formats_are_one_field(tmp_path):
    field = drawn()
    table = rows(field)
    mixed = [table[i] for i in np.random.default_rng(2).permutation(len(table))]
    one = read_table(write(tmp_path / "a.csv", table), policy())
    other = read_table(write(tmp_path / "b.csv", mixed), policy())
    columns = {name: [row[i] for row in mixed] for i, name in enumerate(HEADER)}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "c.parquet")
    third = read_table(tmp_path / "c.parquet", policy())
    for found in (one, other, third):
        assert found.submissions == field.submissions
        assert [e.name for e in found.environments] == ["E0", "E1"]
        for mine, theirs in zip(found.environments, field.environments, strict=True):
            assert means_of(mine).tolist() == means_of(theirs).tolist()


def test_commit_order_is_block_then_extrinsic_then_hotkey(tmp_path):
    table = [
        ("d", "r", 7, 0, "E", "q", 1),
        ("c", "r", 5, 2, "E", "q", 1),
        ("b", "r", 5, 1, "E", "q", 1),
        ("a", "r", 5, 2, "E", "q", 1),
        ("a", "r2", 10, 0, "E", "q", 1),
    ]
    found = read_table(write(tmp_path / "t.csv", table), policy()).submissions
    assert [(s.hotkey, s.block, s.extrinsic) for s in found] == [
        ("b", 5, 1),
        ("a", 5, 2),
        ("c", 5, 2),
        ("d", 7, 0),
        ("a", 10, 0),
    ]


def test_addresses_are_one_under_every_prefix_and_uids_are_read(tmp_path):
    other = ss58.encode(ss58.account_id(address("bob")), prefix=0)
    table = [(*GOOD, ""), (other, "r", 1, 0, "MATH", "q1", 1, 7), (address("bob"), "r", 1, 0, "MATH", "q2", 1, 7)]
    found = read_table(write(tmp_path / "t.csv", table, (*HEADER, "uid")), policy()).submissions
    assert [(s.hotkey, s.uid) for s in found] == [(address("bob"), 7), ("alice", None)]


def test_lower_is_better_is_turned_when_it_comes_in(tmp_path):
    rules = policy("[environments.MATH]\nlower_is_better = true")
    (environment,) = read_table(write(tmp_path / "t.csv", [GOOD]), rules).environments
    assert isinstance(environment, Items)
    assert environment.scores.tolist() == [[-0.5]]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({6: "nan"}, "line 3: score: not a finite number"),
        ({6: "inf"}, "not a finite number"),
        ({6: "1e200"}, "not a finite number"),
        ({6: ""}, "not a finite number"),
        ({6: "0x10"}, "not a finite number"),
        ({2: "-1"}, "line 3: block: not a whole number"),
        ({2: "1.5"}, "not a whole number"),
        ({3: ""}, "extrinsic: not a whole number"),
        ({2: "99999999999999999"}, "not a whole number"),
        ({0: ""}, "hotkey: not a name"),
        ({4: ""}, "environment: not a name"),
        ({5: "\x1b[31m"}, "item: not a name"),
        ({1: "x" * 201}, "revision: not a name"),
        ({0: "alice", 1: "r1", 2: 101}, "one model has two values of block"),
        ({0: "alice", 1: "r1", 3: 4}, "one model has two values of extrinsic"),
        ({0: "alice", 1: "r1"}, "the same item twice"),
    ],
)
def test_a_bad_cell_is_named(tmp_path, change, match):
    second = ["bob", "r2", 100, 0, "MATH", "q1", 0.5]
    for index, value in change.items():
        second[index] = value
    with pytest.raises(BadInput, match=match):
        read_table(write(tmp_path / "t.csv", [GOOD, second]), policy())


def test_no_rows_no_columns_no_file(tmp_path):
    with pytest.raises(BadInput, match="no scores"):
        read_table(write(tmp_path / "t.csv", []), policy())
    with pytest.raises(BadInput, match="columns are missing: extrinsic"):
        read_table(write(tmp_path / "t.csv", [], [name for name in HEADER if name != "extrinsic"]), policy())
    with pytest.raises(Unavailable):
        read_table(tmp_path / "none.csv", policy())
