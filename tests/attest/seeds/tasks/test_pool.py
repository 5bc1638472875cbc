from __future__ import annotations

import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import MalformedInput
from attest.seeds.tasks.pool import pool_digest, select

SEED = bytes(range(32))
POOL = list(range(100, 400))


def test_the_smallest_hmacs_are_selected():
    domain, environment = b"integrity/seed/v1/pool", b"NAVWORLD"
    prefixed = len(domain).to_bytes(4, "big") + domain + len(environment).to_bytes(4, "big") + environment
    key = hmac.digest(SEED, prefixed, "sha256")

    def rank(number):
        return hmac.digest(key, b"\0\0\0\1u\0\0\0\x08" + number.to_bytes(8, "big"), sha256)

    assert select(POOL, seed=SEED, environment="NAVWORLD", count=10) == sorted(POOL, key=rank)[:10]


def test_the_golden_selection():
    assert select(POOL, seed=SEED, environment="NAVWORLD", count=5) == GOLDEN
    assert pool_digest(POOL) == GOLDEN_POOL


GOLDEN = [282, 291, 221, 261, 389]
GOLDEN_POOL = "sha256:f3b98159e68564cc9db59fea5cca23ea569c10d2502490154384bfcef06e61ba"


@given(st.permutations(POOL[:20]), st.integers(0, 20))
def test_order_does_not_matter_and_a_longer_selection_extends_a_shorter(pool, count):
    whole = select(POOL[:20], seed=SEED, environment="MEMORY", count=20)
    assert select(pool, seed=SEED, environment="MEMORY", count=count) == whole[:count]
    assert pool_digest(pool) == pool_digest(POOL[:20])


def test_seed_and_environment_both_matter():
    one = select(POOL, seed=SEED, environment="MEMORY", count=50)
    assert one != select(POOL, seed=SEED, environment="DISTILL", count=50)
    assert one != select(POOL, seed=bytes(32), environment="MEMORY", count=50)


def test_a_number_and_its_name_are_different_items():
    assert pool_digest([1]) != pool_digest(["1"])
    assert len(select([1, "1"], seed=SEED, environment="MEMORY", count=2)) == 2


@pytest.mark.parametrize(
    ("ids", "options"),
    [
        ([1, 1], {}),
        ([1], {"count": 2}),
        ([1], {"count": -1}),
        ([1], {"seed": b"short"}),
        ([-1], {}),
        ([1 << 64], {}),
        ([True], {}),
        ([""], {}),
        ([1.5], {}),
    ],
)
def test_what_is_no_pool_is_refused(ids, options):
    with pytest.raises(MalformedInput):
        select(ids, **{"seed": SEED, "environment": "MEMORY", "count": 1, **options})
