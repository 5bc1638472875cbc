from __future__ import annotations

import dataclasses
import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_arkworks_bls12381 import G1Point, Scalar

from attest.errors import InvalidKey
from attest.seeds import beacon
from attest.seeds.beacon import QUICKNET, FixedBeacon
from attest.seeds.errors import BeaconInvalid, BeaconUnavailable

from ..material import vectors
from .simulated import SimulatedBeacon

GOLDEN = vectors()["drand_quicknet"]
ROUND, SIGNATURE = GOLDEN["round"], bytes.fromhex(GOLDEN["signature"])
OTHER_ROUNDS = {
    123: "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92",
    1000: "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
}
P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB


def test_constants_are_those_of_quicknet():
    assert QUICKNET.chain.hex() == GOLDEN["chain_hash"]
    assert QUICKNET.public_key.hex() == GOLDEN["public_key"]
    assert (QUICKNET.genesis, QUICKNET.period) == (GOLDEN["genesis_time"], GOLDEN["period"])
    assert QUICKNET.time_of(ROUND) == GOLDEN["round_time_unix"]
    assert QUICKNET.is_quicknet


def test_a_real_round_verifies_and_gives_its_randomness():
    assert beacon.verify(ROUND, SIGNATURE).hex() == GOLDEN["randomness"]
    assert beacon.value(SIGNATURE).hex() == GOLDEN["randomness"]


@pytest.mark.parametrize("round_", OTHER_ROUNDS)
def test_other_real_rounds_verify(round_):
    signature = bytes.fromhex(OTHER_ROUNDS[round_])
    assert beacon.verify(round_, signature) == sha256(signature).digest()


@pytest.mark.parametrize("round_", [ROUND - 1, ROUND + 1, 1, 2**64 - 1])
def test_a_signature_is_of_its_own_round_only(round_):
    with pytest.raises(BeaconInvalid):
        beacon.verify(round_, SIGNATURE)


@given(st.integers(0, 8 * 48 - 1))
def test_no_changed_bit_passes(bit):
    changed = bytearray(SIGNATURE)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BeaconInvalid):
        beacon.verify(ROUND, bytes(changed))


@given(st.binary(max_size=100))
def test_no_bytes_crash_it(junk):
    with pytest.raises(BeaconInvalid):
        beacon.verify(ROUND, junk)


def outside_the_subgroup() -> G1Point:
    """A point of the curve that is not of prime order; such points exist because the cofactor is not 1."""
    for x in range(1, 100):
        encoded = bytearray(x.to_bytes(48, "big"))
        encoded[0] |= 0x80
        try:
            point = G1Point.from_compressed_bytes_unchecked(bytes(encoded))
        except ValueError:
            continue
        if not point.is_in_subgroup():
            return point
    raise AssertionError("no such point")


def test_a_second_valid_looking_signature_would_be_a_second_beacon_value():
    """What is added has no effect on the pairing, or is the same point in other bytes: all of it must be refused."""
    torsion = outside_the_subgroup()
    shifted = bytes((G1Point.from_compressed_bytes(SIGNATURE) + torsion).to_compressed_bytes())
    infinity, odd_infinity = b"\xc0" + bytes(47), b"\xff" * 48
    x = int.from_bytes(SIGNATURE, "big") & ((1 << 381) - 1)
    not_reduced = ((x + P) | (SIGNATURE[0] & 0xE0) << 376).to_bytes(48, "big") if x + P < 1 << 381 else shifted
    for forged in (shifted, infinity, odd_infinity, not_reduced, bytes(48), SIGNATURE + b"\0", SIGNATURE[:47], b""):
        with pytest.raises(BeaconInvalid):
            beacon.verify(ROUND, forged)


def test_the_negated_signature_is_refused():
    negated = bytes((-G1Point.from_compressed_bytes(SIGNATURE)).to_compressed_bytes())
    doubled = bytes((G1Point.from_compressed_bytes(SIGNATURE) * Scalar(2)).to_compressed_bytes())
    for forged in (negated, doubled):
        with pytest.raises(BeaconInvalid):
            beacon.verify(ROUND, forged)


@pytest.mark.parametrize("round_", [0, -1, 2**64])
def test_no_such_round(round_):
    with pytest.raises(BeaconInvalid):
        beacon.verify(round_, SIGNATURE)


@pytest.mark.parametrize("key", [b"", bytes(96), b"\xc0" + bytes(95), b"\xff" * 96])
def test_a_dishonest_public_key_is_refused(key):
    with pytest.raises(InvalidKey):
        beacon.verify(ROUND, SIGNATURE, network=dataclasses.replace(QUICKNET, public_key=key))


@given(st.integers(1, 2**40))
def test_rounds_and_times(round_):
    time = QUICKNET.time_of(round_)
    assert QUICKNET.round_at(time) == QUICKNET.round_at(time + 2) == round_
    assert QUICKNET.round_at(time - 1) == round_ - 1


def test_before_the_first_round_there_is_none():
    assert QUICKNET.round_at(QUICKNET.genesis - 1) == QUICKNET.round_at(0) == 0


def answer(**changes) -> bytes:
    return json.dumps({"round": ROUND, "randomness": "00" * 32, "signature": SIGNATURE.hex()} | changes).encode()


def test_a_file_of_answers_is_a_source():
    source = FixedBeacon.parse(answer() + b"\n\n" + answer(round=5, signature="aa") + b"\n")
    assert beacon.signed(source, ROUND) == SIGNATURE
    with pytest.raises(BeaconUnavailable):
        source.signature(6)
    with pytest.raises(BeaconInvalid):
        beacon.signed(source, 5)


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b"x", answer(round=True), answer(round="5"), answer(signature=5), answer(signature="zz"), b"[" * 99],
)
def test_what_is_no_answer_is_refused(line):
    with pytest.raises(BeaconInvalid):
        FixedBeacon.parse(line)


def test_the_simulated_network_is_not_quicknet():
    simulated = SimulatedBeacon()
    assert not simulated.network.is_quicknet
    signature = simulated.sign(ROUND)
    beacon.verify(ROUND, signature, network=simulated.network)
    with pytest.raises(BeaconInvalid):
        beacon.verify(ROUND, signature)
    with pytest.raises(BeaconInvalid):
        beacon.verify(ROUND, SIGNATURE, network=simulated.network)
