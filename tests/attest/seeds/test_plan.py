from __future__ import annotations

import dataclasses
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, MalformedInput
from attest.seeds import derive
from attest.seeds.plan import Environment, Plan, common, every, handed_to, items_digest, traced_to, tracers

from .material import PLAN, ROSTER

SEED = sha256(b"a final seed").digest()


def ids(items):
    return [item.id for item in items]


def test_common_items_are_the_first_keys_of_each_environment():
    assert [(i.environment, i.index) for i in common(SEED, PLAN)] == [
        *(("sat", n) for n in range(5)),
        *(("ded", n) for n in range(3)),
    ]
    assert all(i.key == derive.item_key(SEED, i.environment, i.index) for i in common(SEED, PLAN))


def test_each_validator_gets_the_common_items_and_tracers_that_nobody_else_gets():
    handed = {hotkey: set(ids(handed_to(SEED, PLAN, ROSTER, hotkey))) for hotkey in ROSTER}
    shared = set(ids(common(SEED, PLAN)))
    assert handed[ROSTER[0]] & handed[ROSTER[1]] == shared
    for place, hotkey in enumerate(ROSTER):
        assert handed[hotkey] - shared == set(ids(tracers(SEED, PLAN, place)))
        assert len(handed[hotkey] - shared) == 2


def test_places_of_tracers_in_the_order_handed_out_tell_nothing():
    plan = Plan.of(Environment("sat", 10, 10))
    seeds = [sha256(b"%d" % n).digest() for n in range(400)]
    patterns = [tuple(item.index < 10 for item in handed_to(s, plan, ROSTER, ROSTER[0])) for s in seeds]
    assert len(set(patterns)) > 390
    shares = [sum(pattern[at] for pattern in patterns) / len(seeds) for at in range(20)]
    assert all(0.35 < share < 0.65 for share in shares)


@given(st.integers(0, 30), st.integers(0, 4), st.integers(1, 6))
def test_every_item_is_traced_to_whom_it_was_given(n, t, validators):
    plan = Plan.of(Environment("e", n, t))
    found = list(every(SEED, plan, validators))
    assert len(set(ids(found))) == len(found) == n + t * validators
    for place in range(validators):
        assert {traced_to(plan, "e", item.index) for item in tracers(SEED, plan, place)} <= {place}
    assert {traced_to(plan, "e", item.index) for item in common(SEED, plan)} <= {None}


def test_the_digest_binds_every_item():
    base = items_digest(SEED, PLAN, 2)
    assert base == items_digest(SEED, PLAN, 2)
    others = {
        items_digest(sha256(SEED).digest(), PLAN, 2),
        items_digest(SEED, PLAN, 3),
        items_digest(SEED, Plan.of(Environment("sat", 6, 2), Environment("ded", 3, 0)), 2),
    }
    assert base not in others
    assert len(others) == 3


def test_an_id_and_a_printed_item_do_not_show_the_key():
    item = next(common(SEED, PLAN))
    assert len(item.id) == 32
    assert item.id not in item.key.hex()
    assert item.key.hex() not in repr(item)
    assert repr(item.key) not in repr(item)


def test_a_plan_is_read_back_whatever_its_spelling():
    assert Plan.parse(PLAN.encode()) == PLAN
    assert Plan.parse(PLAN.encode().replace(b",", b", ")).digest == PLAN.digest


@pytest.mark.parametrize(
    "environments",
    [
        (),
        (Environment("a", 1, 0), Environment("a", 2, 0)),
        tuple(Environment(f"e{n}", 1, 0) for n in range(65)),
    ],
)
def test_impossible_plans_are_refused(environments):
    with pytest.raises(AttestError):
        Plan.of(*environments)


def test_strangers_get_nothing_and_unknown_items_are_refused():
    with pytest.raises(MalformedInput):
        handed_to(SEED, PLAN, ROSTER[:1], ROSTER[1])
    for environment, index in (("sat", -1), ("ded", 3), ("none", 0)):
        with pytest.raises(MalformedInput):
            traced_to(PLAN, environment, index)
    assert dataclasses.is_dataclass(PLAN)
