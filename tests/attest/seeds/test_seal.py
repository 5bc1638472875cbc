from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.seeds.errors import SealInvalid
from attest.seeds.seal import SEALED_SIZE, seal, unseal

from .test_derive import CONTEXT, SECRET

KEY, NONCE = b"\x05" * 32, b"\x06" * 12


def test_a_sealed_secret_opens_with_its_key_for_its_epoch():
    sealed = seal(SECRET, CONTEXT, key=KEY, nonce=NONCE)
    assert len(sealed) == SEALED_SIZE
    assert SECRET not in sealed
    assert unseal(sealed, CONTEXT, key=KEY) == SECRET


@pytest.mark.parametrize("change", [{"epoch": 8}, {"netuid": 1}, {"open_round": 657514}, {"pool": bytes(32)}])
def test_it_does_not_open_for_another_epoch(change):
    sealed = seal(SECRET, CONTEXT, key=KEY, nonce=NONCE)
    with pytest.raises(SealInvalid):
        unseal(sealed, dataclasses.replace(CONTEXT, **change), key=KEY)


@given(st.integers(0, SEALED_SIZE - 1), st.integers(1, 255))
def test_one_changed_byte_is_noticed(at, change):
    sealed = bytearray(seal(SECRET, CONTEXT, key=KEY, nonce=NONCE))
    sealed[at] ^= change
    with pytest.raises(SealInvalid):
        unseal(bytes(sealed), CONTEXT, key=KEY)


@pytest.mark.parametrize("key", [b"", b"\x05" * 31, b"\x04" * 32])
def test_another_key_does_not_open_it_and_no_error_shows_key_or_secret(key):
    sealed = seal(SECRET, CONTEXT, key=KEY, nonce=NONCE)
    with pytest.raises(SealInvalid) as caught:
        unseal(sealed, CONTEXT, key=key)
    assert KEY.hex()[:8] not in str(caught.value)
    assert SECRET.hex()[:8] not in str(caught.value)


def test_wrong_lengths_are_refused():
    for secret, nonce in ((SECRET[:5], NONCE), (SECRET, NONCE[:5])):
        with pytest.raises(SealInvalid):
            seal(secret, CONTEXT, key=KEY, nonce=nonce)
    with pytest.raises(SealInvalid):
        unseal(b"", CONTEXT, key=KEY)
