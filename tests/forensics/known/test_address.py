from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.errors import UsageError
from forensics.known.address import encode, normalise, public_key

ALICE = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
ALICE_ON_POLKADOT = "15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5"
ALICE_ON_KUSAMA = "HNZata7iMYWmk5RvZRTiAsSDhV8366zq2YGb3tLH5Upf74F"
ALICE_KEY = bytes.fromhex("d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d")


@pytest.mark.parametrize("address", [ALICE, ALICE_ON_POLKADOT, ALICE_ON_KUSAMA])
def test_one_key_has_one_address(address):
    assert public_key(address) == ALICE_KEY
    assert normalise(address) == (ALICE, True)


@given(key=st.binary(min_size=32, max_size=32))
def test_every_key_survives_the_round_trip(key):
    assert public_key(encode(key)) == key


@pytest.mark.parametrize("text", [ALICE[:-1] + "Z", ALICE[:-1], ALICE + "1", "alice", "0OIl"])
def test_what_is_no_address_is_kept_and_said_to_be_none(text):
    assert normalise(text) == (text, False)


@pytest.mark.parametrize("text", ["", "a b", "x" * 81, "a\x1b[2J", "ключ"])
def test_what_no_name_needs_is_refused(text):
    with pytest.raises(UsageError, match="--hotkey"):
        normalise(text)
