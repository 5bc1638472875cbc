from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.seeds import timelock
from attest.seeds.errors import BeaconInvalid, TimelockInvalid
from attest.seeds.timelock import CIPHERTEXT_SIZE, QuicknetTimelock

from ..material import vectors
from .simulated import SimulatedBeacon

GOLDEN = vectors()["drand_quicknet"]
ROUND, SIGNATURE = GOLDEN["round"], bytes.fromhex(GOLDEN["signature"])
SECRET = bytes(range(32))
CIPHERTEXT = QuicknetTimelock().encrypt(SECRET, ROUND)


def test_the_beacon_of_its_round_opens_it():
    assert timelock.open_(CIPHERTEXT, ROUND, SIGNATURE) == SECRET


def test_the_same_secret_never_looks_the_same_and_is_not_in_sight():
    assert QuicknetTimelock().encrypt(SECRET, ROUND) != CIPHERTEXT
    assert SECRET not in CIPHERTEXT


def test_no_other_round_opens_it():
    other = bytes.fromhex(
        "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
    )
    with pytest.raises(TimelockInvalid, match="another round"):
        timelock.open_(CIPHERTEXT, 1000, other)
    with pytest.raises(BeaconInvalid):
        timelock.open_(CIPHERTEXT, ROUND, other)


def test_a_ciphertext_to_another_round_with_a_changed_label_does_not_open():
    """The label is not authenticated; what counts is which round it was encrypted to."""
    later = QuicknetTimelock().encrypt(SECRET, ROUND + 1000)
    relabelled = later[:-8] + ROUND.to_bytes(8, "little")
    timelock.check_shape(relabelled, ROUND)
    with pytest.raises(TimelockInvalid, match="does not open"):
        timelock.open_(relabelled, ROUND, SIGNATURE)


@settings(deadline=None)
@given(st.integers(0, CIPHERTEXT_SIZE - 1), st.integers(1, 255))
def test_one_changed_byte_is_noticed(at, change):
    changed = bytearray(CIPHERTEXT)
    changed[at] ^= change
    with pytest.raises(TimelockInvalid):
        timelock.open_(bytes(changed), ROUND, SIGNATURE)


@given(st.binary(max_size=400))
def test_no_bytes_reach_the_native_code_but_those_of_the_one_shape(junk):
    with pytest.raises(TimelockInvalid):
        timelock.check_shape(junk, ROUND)


@pytest.mark.parametrize("at", [0, 98, 138, 178, 186, 242, 262])
def test_huge_lengths_are_refused(at):
    changed = bytearray(CIPHERTEXT)
    changed[at : at + 8] = b"\xff" * 8
    with pytest.raises(TimelockInvalid, match="shape"):
        timelock.check_shape(bytes(changed), ROUND)


def test_infinity_as_the_point_is_refused():
    for point in (b"\xc0" + bytes(95), b"\xff" * 96, bytes(96)):
        with pytest.raises(TimelockInvalid):
            timelock.check_shape(CIPHERTEXT[:2] + point + CIPHERTEXT[98:], ROUND)


def test_only_a_secret_is_locked_and_no_error_shows_it():
    with pytest.raises(TimelockInvalid) as caught:
        QuicknetTimelock().encrypt(SECRET[:31], ROUND)
    assert SECRET.hex()[:16] not in str(caught.value)


def test_the_simulated_network_locks_in_the_same_format():
    simulated = SimulatedBeacon()
    locked = simulated.encrypt(SECRET, 1234)
    assert timelock.open_(locked, 1234, simulated.sign(1234), network=simulated.network) == SECRET
