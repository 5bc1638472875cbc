from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.seeds import batch
from attest.seeds.batch import MAX_BATCH, leaf, places, verify
from attest.seeds.errors import BatchInvalid

from .test_derive import CONTEXT


def leaves(count: int) -> list[bytes]:
    return [
        leaf(dataclasses.replace(CONTEXT, epoch=e), bytes([e % 256]) * 32, b"lock %d" % e) for e in range(7, 7 + count)
    ]


@given(st.integers(1, 70))
def test_every_epoch_is_proven_to_be_in_its_place(count):
    bodies = leaves(count)
    found = places(bodies)
    assert len({place.root for place in found}) == 1
    for i, (place, body) in enumerate(zip(found, bodies, strict=True)):
        assert (place.index, place.size) == (i, count)
        verify(place, body)


@given(st.integers(2, 40), st.data())
def test_nothing_else_is(count, data):
    bodies = leaves(count)
    i, j = data.draw(st.permutations(range(count)))[:2]
    found = places(bodies)
    with pytest.raises(BatchInvalid):
        verify(found[i], bodies[j])
    with pytest.raises(BatchInvalid):
        verify(dataclasses.replace(found[i], index=found[j].index), bodies[i])
    with pytest.raises(BatchInvalid):
        verify(dataclasses.replace(found[i], root=bytes(32)), bodies[i])


def test_the_root_binds_context_commitment_timelock_and_order():
    base = places(leaves(4))[0].root
    other_lock = [*leaves(3), leaf(dataclasses.replace(CONTEXT, epoch=10), b"\x0a" * 32, b"another lock")]
    other_commitment = [*leaves(3), leaf(dataclasses.replace(CONTEXT, epoch=10), b"\x0b" * 32, b"lock 10")]
    other_context = [*leaves(3), leaf(dataclasses.replace(CONTEXT, epoch=11), b"\x0a" * 32, b"lock 10")]
    roots = {places(x)[0].root for x in (other_lock, other_commitment, other_context, leaves(4)[::-1], leaves(5))}
    assert base not in roots
    assert len(roots) == 5


def test_none_and_too_many_are_refused():
    for bodies in ([], [b"x"] * (MAX_BATCH + 1)):
        with pytest.raises(BatchInvalid):
            batch.places(bodies)
