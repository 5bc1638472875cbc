"""Unpredictability by construction: what each kind of knowledge gives, and what it does not.

Nothing here can prove SHA-256; what is shown is that no path leads from what is known to what is hidden that does not
go through a missing secret, and that a leak reaches exactly as far as the design says.
"""

from __future__ import annotations

import dataclasses
import hmac
import inspect
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError
from attest.seeds import beacon, derive, seal, timelock
from attest.seeds.derive import Context
from attest.seeds.plan import common, handed_to, items_digest, tracers

from .material import CONTEXT, LEAGUE, MIX, OPEN, PLAN, ROSTER, SECRET, Operator

BETA = beacon.value(LEAGUE.sign(MIX))
SEED = derive.final_seed(CONTEXT, SECRET, BETA)
secrets = st.binary(min_size=32, max_size=32)


def keys(seed: bytes) -> set[bytes]:
    return {derive.item_key(seed, environment, index) for environment in ("sat", "ded") for index in range(20)}


def test_the_seed_takes_the_secret_and_the_beacon_and_nothing_else_that_is_hidden():
    assert list(inspect.signature(derive.final_seed).parameters) == ["context", "secret", "beta"]
    assert list(inspect.signature(derive.item_key).parameters) == ["seed", "environment", "index"]
    assert {field.name for field in dataclasses.fields(Context)}.isdisjoint({"secret", "beta", "seed"})


@given(secrets)
def test_without_the_secret_every_guess_is_another_seed_and_shows_itself_as_wrong(guess):
    """All public data and the beacon, but not s: a guess neither opens C nor gives one item."""
    if guess == SECRET:
        return
    with pytest.raises(AttestError):
        derive.check_opening(CONTEXT, guess, derive.commitment(CONTEXT, SECRET))
    assert keys(derive.final_seed(CONTEXT, guess, BETA)).isdisjoint(keys(SEED))


@given(st.integers(0, 255))
def test_one_bit_of_the_secret_decides_over_every_item(bit):
    close = bytearray(SECRET)
    close[bit // 8] ^= 1 << bit % 8
    other = derive.final_seed(CONTEXT, bytes(close), BETA)
    distance = (int.from_bytes(other, "big") ^ int.from_bytes(SEED, "big")).bit_count()
    assert 60 < distance < 196
    assert keys(other).isdisjoint(keys(SEED))


def test_public_values_are_no_secrets():
    """Everything in the file, tried as s and as S: nothing fits."""
    running = dataclasses.replace(Operator().file(), reveal=None, consistency=None, open_signature=None)
    raw = running.encode()
    tried = {sha256(raw).digest(), CONTEXT.genesis, CONTEXT.pool, derive.commitment(CONTEXT, SECRET), BETA, bytes(32)}
    for value in tried:
        assert derive.commitment(CONTEXT, value) != derive.commitment(CONTEXT, SECRET)
        assert keys(value).isdisjoint(keys(SEED))
        assert keys(derive.final_seed(CONTEXT, value, BETA)).isdisjoint(keys(SEED))


@given(secrets)
def test_with_the_secret_but_before_the_beacon_every_beacon_value_is_another_epoch(guess):
    """Whoever holds s, the operator included, still lacks beta."""
    if guess != BETA:
        assert keys(derive.final_seed(CONTEXT, SECRET, guess)).isdisjoint(keys(SEED))


def test_no_other_beacon_value_can_be_passed_off():
    for signature in (LEAGUE.sign(MIX - 1), LEAGUE.sign(MIX + 1), bytes(48), b"\xc0" + bytes(47)):
        with pytest.raises(AttestError):
            beacon.verify(MIX, signature, network=LEAGUE.network)


def test_the_timelock_shows_nothing_before_its_round():
    locked = LEAGUE.encrypt(SECRET, OPEN)
    assert SECRET not in locked
    for earlier in (MIX, OPEN - 1):
        with pytest.raises(AttestError):
            timelock.open_(locked, OPEN, LEAGUE.sign(earlier), network=LEAGUE.network)


def test_a_leaked_secret_reaches_its_own_epoch_and_no_other():
    other = dataclasses.replace(CONTEXT, epoch=8)
    theirs = sha256(b"secret of epoch 8").digest()
    assert keys(derive.final_seed(other, SECRET, BETA)).isdisjoint(keys(derive.final_seed(other, theirs, BETA)))


def test_a_leaked_seed_reaches_every_item_of_its_epoch_and_no_other():
    assert keys(SEED) == keys(bytes(SEED))
    later = derive.final_seed(dataclasses.replace(CONTEXT, epoch=8), sha256(SECRET).digest(), BETA)
    assert keys(later).isdisjoint(keys(SEED))


def test_a_leaked_item_reaches_no_other():
    """From one key no other follows by the same construction, and not S."""
    leaked = derive.item_key(SEED, "sat", 0)
    others = keys(SEED) - {leaked}
    assert keys(leaked).isdisjoint(others)
    assert hmac.digest(leaked, b"", "sha256") not in others
    assert leaked != SEED


def test_a_leaking_validator_reaches_common_items_and_its_own_tracers_and_is_named_by_them():
    leaked = {item.key for item in handed_to(SEED, PLAN, ROSTER, ROSTER[0])}
    assert leaked >= {item.key for item in common(SEED, PLAN)}
    assert leaked >= {item.key for item in tracers(SEED, PLAN, 0)}
    assert leaked.isdisjoint({item.key for item in tracers(SEED, PLAN, 1)})
    assert SEED not in leaked


def test_a_leaked_database_without_the_sealing_key_is_useless():
    sealed = seal.seal(SECRET, CONTEXT, key=b"\x01" * 32, nonce=bytes(12))
    assert SECRET not in sealed
    with pytest.raises(AttestError):
        seal.unseal(sealed, CONTEXT, key=b"\x02" * 32)


def test_a_database_with_its_sealing_key_gives_secrets_but_no_item_before_the_beacon():
    sealed = seal.seal(SECRET, CONTEXT, key=b"\x01" * 32, nonce=bytes(12))
    secret = seal.unseal(sealed, CONTEXT, key=b"\x01" * 32)
    for beta in (bytes(32), sha256(b"a guess").digest(), beacon.value(LEAGUE.sign(MIX - 1))):
        assert keys(derive.final_seed(CONTEXT, secret, beta)).isdisjoint(keys(SEED))


def test_what_is_published_when_an_epoch_opens_tells_nothing_of_its_items():
    digest = bytes.fromhex(items_digest(SEED, PLAN, 2).removeprefix("sha256:"))
    assert keys(digest).isdisjoint(keys(SEED))
    for item in common(SEED, PLAN):
        assert keys(sha256(bytes.fromhex(item.id)).digest()).isdisjoint(keys(SEED))
