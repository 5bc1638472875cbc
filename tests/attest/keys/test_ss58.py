"""SS58: one account, one text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import InvalidKey
from attest.keys import ss58
from tests.attest.material import vectors

ALICE = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
POLKADOT_ALICE = "15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5"


def test_alice_is_the_vector() -> None:
    vector = vectors()["sr25519"]
    assert vector["alice_ss58_42"] == ALICE
    assert ss58.encode(bytes.fromhex(vector["alice_pub"])) == ALICE


def test_addresses_of_other_networks_are_the_same_account() -> None:
    assert ss58.decode(POLKADOT_ALICE)[0] == 0
    assert ss58.normalise(POLKADOT_ALICE) == ALICE == ss58.normalise(ALICE)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.binary(min_size=32, max_size=32), st.integers(0, ss58.MAX_PREFIX))
def test_every_prefix_is_read_back(account: bytes, prefix: int) -> None:
    address = ss58.encode(account, prefix=prefix)
    assert ss58.decode(address) == (prefix, account)
    assert ss58.normalise(address) == ss58.encode(account)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.binary(min_size=32, max_size=32), st.data())
def test_a_mistyped_letter_is_refused_or_never_accepted_as_the_same(account: bytes, data: st.DataObject) -> None:
    address = ss58.encode(account)
    at = data.draw(st.integers(0, len(address) - 1))
    letter = data.draw(st.sampled_from("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"))
    mistyped = address[:at] + letter + address[at + 1 :]
    if mistyped != address:
        try:
            assert ss58.account_id(mistyped) != account  # a 16-bit checksum lets one in 65,536 through
        except InvalidKey:
            return


@pytest.mark.parametrize(
    "address",
    [
        "",
        "5",
        ALICE[:-1],
        ALICE + "1",
        "1" + ALICE,
        ALICE.replace("G", "0", 1),
        " " + ALICE,
        ALICE + "\n",
        "5" * 10_000,
        "é" * 48,
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidKey):
        ss58.decode(address)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.text(max_size=70))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        ss58.decode(text)
    except InvalidKey:
        return


@pytest.mark.parametrize("length", [0, 31, 33])
def test_only_32_byte_accounts_have_an_address(length: int) -> None:
    with pytest.raises(InvalidKey):
        ss58.encode(bytes(length))
    with pytest.raises(InvalidKey):
        ss58.encode(bytes(32), prefix=ss58.MAX_PREFIX + 1)
