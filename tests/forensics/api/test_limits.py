"""How often, how much, how slowly, how many at once."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.api.limits import BodyLimit, Door
from forensics.api.problems import Problem
from forensics.api.rates import Buckets, Rate, address_key


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def scope(path="/v1/x", *, client=("192.0.2.1", 1), headers=()):
    return {"type": "http", "method": "POST", "path": path, "client": client, "headers": list(headers)}


def call(app, asked, *messages):
    """Status and document of an answer."""
    waiting, sent = list(messages) or [{"type": "http.request"}], []

    async def receive():
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message)

    asyncio.run(app(asked, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"] or b"null"), dict(sent[0]["headers"])


async def fine(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(len(body)).encode()})


def test_after_the_burst_it_is_the_rate():
    clock = Time()
    buckets = Buckets(Rate(2.0, 5), clock=clock)
    assert [buckets.wait("a") for _ in range(5)] == [0.0] * 5
    assert buckets.wait("a") == 0.5
    assert buckets.wait("b") == 0.0
    clock.now = 0.5
    assert buckets.wait("a") == 0.0
    assert buckets.wait("a") == 0.5


@given(st.lists(st.floats(0, 3), min_size=1, max_size=60), st.floats(0.1, 10), st.integers(1, 20))
def test_never_more_than_burst_and_rate_allow(pauses, rate, burst):
    clock = Time()
    buckets = Buckets(Rate(rate, burst), clock=clock)
    granted = 0
    for pause in pauses:
        clock.now += pause
        granted += buckets.wait("a") == 0.0
    assert granted <= burst + rate * sum(pauses) + 1e-6


def test_memory_does_not_grow_with_addresses():
    buckets = Buckets(Rate(1.0, 1), most=100, clock=Time())
    for number in range(1000):
        buckets.wait(str(number))
    assert len(buckets) == 100
    assert buckets.wait("999") > 0


def test_no_rate_is_no_limit_and_no_memory():
    buckets = Buckets(Rate(0.0, 0), clock=Time())
    assert all(buckets.wait("a") == 0.0 for _ in range(1000))
    assert len(buckets) == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("testclient", "testclient", True),
    ],
)
def test_who_counts_as_one_client(one, other, same):
    assert (address_key(one) == address_key(other)) is same


def test_who_asks_too_often_is_told_when_to_come_back():
    door = Door(fine, Buckets(Rate(0.25, 1), clock=Time()))
    assert call(door, scope())[0] == 200
    status, document, headers = call(door, scope())
    assert (status, document["code"], headers[b"retry-after"]) == (429, "rate_limited", b"4")
    assert call(door, scope("/healthz"))[0] == 200
    assert call(door, scope(client=("192.0.2.2", 1)))[0] == 200


def test_a_hotkey_that_asks_too_often():
    buckets = Buckets(Rate(1.0, 1), clock=Time())
    buckets.demand("5F")
    with pytest.raises(Problem) as refused:
        buckets.demand("5F")
    assert (refused.value.status, refused.value.code) == (429, "rate_limited")


def test_beyond_what_is_worked_on_at_once_it_says_so():
    async def slow(asked, receive, send):
        await asyncio.sleep(3600)

    async def flood():
        door = Door(slow, Buckets(Rate(0.0, 0)), at_once=2)
        sent = []

        async def send(message):
            sent.append(message)

        first = [asyncio.create_task(door(scope(), None, send)) for _ in range(2)]
        await asyncio.sleep(0)
        await door(scope(), None, send)
        refused = sent[0]["status"], json.loads(sent[1]["body"])["code"]
        for task in first:
            task.cancel()
        await asyncio.gather(*first, return_exceptions=True)
        return refused, door._inside

    assert asyncio.run(flood()) == ((503, "overloaded"), 0)


def part(size, more):
    return {"type": "http.request", "body": b"x" * size, "more_body": more}


def test_a_body_is_counted_as_it_arrives():
    app = BodyLimit(fine, limit=10)
    assert call(app, scope(), part(6, True), part(4, False))[:2] == (200, 10)
    status, document, headers = call(app, scope(), part(6, True), part(5, True), part(5, False))
    assert (status, document["code"], headers[b"connection"]) == (413, "body_too_large", b"close")
    assert call(app, scope(headers=[(b"content-length", b"11")]))[0] == 413
    assert call(app, scope(headers=[(b"content-length", b"-1")]))[0] == 413


def test_a_body_that_trickles_in_is_given_up_on():
    app = BodyLimit(fine, seconds=0.05)
    status, document, _ = call(app, scope(), part(1, True))
    assert (status, document["code"]) == (408, "body_too_slow")
