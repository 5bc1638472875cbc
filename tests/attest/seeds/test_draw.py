from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from attest.errors import InputTooLarge, MalformedInput
from attest.seeds.draw import MAX_BITS, Draw

from ..material import DATA

GOLDEN = json.loads((DATA / "draw.json").read_text())
KEY = bytes.fromhex(GOLDEN["key"])
keys = st.binary(min_size=32, max_size=32)


def test_golden_stream():
    draw = Draw(KEY)
    stream = bytes.fromhex(GOLDEN["stream"])
    assert b"".join(draw.bits(8 * n).to_bytes(n, "big") for n in (1, 31, 2, 62)) == stream


def test_golden_choices():
    draw = Draw(KEY)
    for step in GOLDEN["steps"]:
        assert getattr(draw, step["op"])(int(step["n"])) == int(step["value"])
    assert Draw(KEY).shuffle(range(10)) == GOLDEN["shuffle_of_0_to_9"]
    assert Draw(KEY).sample(range(20), 6) == GOLDEN["sample_of_6_from_0_to_19"]
    fork = GOLDEN["fork"]
    assert Draw(KEY).fork(fork["label"]).bits(128).to_bytes(16, "big").hex() == fork["first_16_bytes"]


@given(keys, st.integers(1, 2**200))
def test_below_is_in_range(key, n):
    assert 0 <= Draw(key).below(n) < n


@given(keys, st.integers(-(2**70), 2**70), st.integers(0, 2**70))
def test_between_includes_both_ends_and_nothing_else(key, low, width):
    assert low <= Draw(key).between(low, low + width) <= low + width


@pytest.mark.parametrize("n", [2, 3, 5, 6, 10, 100, 129])
def test_every_value_is_equally_likely(n):
    draw = Draw(sha256(b"uniform").digest())
    counts = Counter(draw.below(n) for _ in range(200 * n))
    assert chisquare([counts[i] for i in range(n)]).pvalue > 1e-4


def test_wide_bounds_use_their_full_width():
    draw = Draw(KEY)
    top = [draw.below(3 << 94) >> 94 for _ in range(600)]
    assert chisquare([top.count(i) for i in range(3)]).pvalue > 1e-4
    assert len({draw.below(2**40) & 0xFFFFFFFF00 for _ in range(100)}) == 100


@given(keys, st.lists(st.integers(), max_size=30))
def test_shuffle_keeps_the_entries_and_leaves_the_argument(key, entries):
    before = list(entries)
    assert sorted(Draw(key).shuffle(entries)) == sorted(before)
    assert entries == before


def test_every_order_is_equally_likely():
    draw = Draw(KEY)
    counts = Counter(tuple(draw.shuffle("abcd")) for _ in range(24 * 200))
    assert len(counts) == 24
    assert chisquare(list(counts.values())).pvalue > 1e-4


@given(keys, st.data())
def test_a_sample_is_distinct_entries(key, data):
    count = data.draw(st.integers(0, 20))
    k = data.draw(st.integers(0, count))
    found = Draw(key).sample(range(count), k)
    assert len(found) == k == len(set(found))
    assert set(found) <= set(range(count))


def test_forks_do_not_shift_the_stream_they_come_from():
    plain, forked = Draw(KEY), Draw(KEY)
    first = forked.fork("a").bits(256)
    assert [plain.below(1000) for _ in range(20)] == [forked.below(1000) for _ in range(20)]
    assert forked.fork("a").bits(256) == first != forked.fork("b").bits(256)


def test_one_value_takes_nothing_from_the_stream():
    draw = Draw(KEY)
    assert (draw.below(1), draw.bits(0), draw.choice("x"), draw.shuffle([3]), draw.sample([1], 0)) == (
        0,
        0,
        "x",
        [3],
        [],
    )
    assert draw.bits(64) == Draw(KEY).bits(64)


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3"])
def test_no_such_bound(n):
    with pytest.raises(MalformedInput):
        Draw(KEY).below(n)


def test_refusals():
    for refused in (
        lambda: Draw(KEY[:31]),
        lambda: Draw(KEY.hex()),
        lambda: Draw(KEY).choice([]),
        lambda: Draw(KEY).sample([1], 2),
        lambda: Draw(KEY).bits(-1),
        lambda: Draw(KEY).fork(""),
    ):
        with pytest.raises(MalformedInput):
            refused()
    with pytest.raises(InputTooLarge):
        Draw(KEY).bits(MAX_BITS + 1)


def test_a_draw_does_not_print_its_key():
    assert KEY.hex() not in repr(Draw(KEY))
    assert repr(KEY) not in repr(Draw(KEY))
