"""Scores after multipliers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.keys import ss58
from forensics.client import Scored, Trust
from forensics.client.reading import Reading, State
from forensics.client.snapshot import verify
from forensics.errors import UsageError
from tests.forensics.client.world import NETUID, START, World, address, key, revision, signed, verdict, verdicts

MULTIPLIERS = st.sampled_from(["0", "0.000000000000000001", "0.25", "0.5", "0.999", "1", "1.0"])


def reading(*entries) -> Reading:
    snapshot = verify(signed(verdicts(*entries)), Trust.of(key(), netuid=NETUID))
    return Reading(State.FRESH, snapshot, (), START)


@given(MULTIPLIERS, st.floats(-1e6, 1e6, allow_nan=False))
def test_a_penalty_never_raises_a_score(multiplier, score):
    (row,) = reading(verdict(0, "bob", multiplier)).apply([Scored(address("bob"), revision("bob"), score)]).rows
    assert row.adjusted <= row.score
    assert row.adjusted == (score * float(multiplier) if score > 0 else score)


def test_addresses_of_another_prefix_are_the_same_hotkey():
    other = ss58.encode(ss58.account_id(address("bob")), prefix=13116)
    found = reading().multiplier(other, revision("bob"))
    assert (found.multiplier, found.known) == (0.25, True)
    assert found.why == "penalised: copy.perturbed"


def test_order_is_kept_and_unknown_is_shown():
    names = ["zoe", "eve", "ada"]
    applied = reading().apply(Scored(address(name), revision(name), 1.0) for name in names)
    assert [(row.hotkey, row.adjusted, row.known) for row in applied.rows] == [
        (address("zoe"), 1.0, False),
        (address("eve"), 0.0, True),
        (address("ada"), 1.0, True),
    ]
    assert "not in the snapshot" in applied.rows[0].why


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_no_number_is_no_score(score):
    with pytest.raises(UsageError, match="finite"):
        reading().apply([Scored(address("bob"), revision("bob"), score)])


def test_what_is_not_an_address_is_refused():
    with pytest.raises(UsageError, match="not a hotkey"):
        reading().apply([Scored("7", revision("bob"), 1.0)])


def test_a_reading_says_what_it_is_in_json(world: World):
    world.publish(7)
    found = world.client().read().document()
    assert found["state"] == "fresh"
    assert found["snapshot"]["sequence"] == 7
    assert found["snapshot"]["policy"]["version"] == 3
    world.down = True
    world.wait(hours=2)
    found = world.client().read().document()
    assert (found["state"], found["snapshot"]) == ("neutral", None)
    assert [problem["code"] for problem in found["problems"]] == ["expired", "unreachable"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"service_key": "not a key"}, "service key"),
        ({"netuid": 70_000}, "no such subnet"),
        ({"url": "ftp://x"}, "URL"),
        ({"url": "http://x y"}, "URL"),
        ({"network": "nowhere"}, "genesis"),
        ({"deadline": 0.0}, "deadline"),
    ],
)
def test_what_cannot_be_configured(world: World, options, match):
    with pytest.raises(UsageError, match=match):
        world.client(**options)


def test_a_password_in_the_url_is_not_shown(world: World):
    world.down = True
    reading = world.client(url="https://user:hunter2@verdicts.example").read()
    assert "hunter2" not in reading.why
