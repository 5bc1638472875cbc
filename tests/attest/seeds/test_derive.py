from __future__ import annotations

import dataclasses
import hmac
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, CommitmentMismatch, MalformedInput
from attest.seeds import derive
from attest.seeds.derive import Context

from ..material import vectors

GOLDEN = vectors()["proposed_seed_scheme"]
BETA = bytes.fromhex(vectors()["drand_quicknet"]["randomness"])
SECRET = bytes.fromhex(GOLDEN["inputs"]["secret"])
CONTEXT = Context(
    genesis=bytes(32),
    netuid=120,
    competition="demo",
    epoch=7,
    pool=sha256(b"pool").digest(),
    generator=sha256(b"code").digest(),
    mix_round=657413,
    open_round=657513,
)
SEED = derive.final_seed(CONTEXT, SECRET, BETA)


def test_golden_values_of_the_design():
    assert CONTEXT.encode().hex() == GOLDEN["ctx_hex"]
    assert derive.commitment(CONTEXT, SECRET).hex() == GOLDEN["commit"]
    assert SEED.hex() == GOLDEN["final_seed"]
    assert derive.item_key(SEED, "sat", 0).hex() == GOLDEN['item(env="sat",0)']
    assert derive.item_key(SEED, "sat", 1).hex() == GOLDEN['item(env="sat",1)']


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(0, 2**64 - 1))
def test_the_standard_library_alone_gives_what_a_library_of_hkdf_gives(secret, beta, index):
    committed = derive.commitment(CONTEXT, secret)
    info = derive.lp(b"integrity/seed/v1/final") + derive.lp(CONTEXT.encode())
    seed = HKDF(SHA256(), 32, salt=committed, info=info).derive(secret + beta)
    assert derive.final_seed(CONTEXT, secret, beta) == seed
    info = derive.lp(b"integrity/seed/v1/item") + derive.lp(b"sat") + index.to_bytes(8, "big")
    assert derive.item_key(seed, "sat", index) == HKDFExpand(SHA256(), 32, info).derive(seed)


def test_a_committed_secret_opens_only_its_own_commitment_in_its_own_context():
    committed = derive.commitment(CONTEXT, SECRET)
    derive.check_opening(CONTEXT, SECRET, committed)
    with pytest.raises(CommitmentMismatch):
        derive.check_opening(CONTEXT, bytes(32), committed)
    with pytest.raises(CommitmentMismatch):
        derive.check_opening(dataclasses.replace(CONTEXT, epoch=8), SECRET, committed)


OTHERS = {
    "genesis": b"\x01" * 32,
    "netuid": 121,
    "competition": "demo2",
    "epoch": 8,
    "pool": b"\x02" * 32,
    "generator": b"\x03" * 32,
    "chain": b"\x04" * 32,
    "mix_round": 657412,
    "open_round": 657514,
}


@pytest.mark.parametrize("field", OTHERS)
def test_every_part_of_the_context_changes_commitment_seed_and_items(field):
    other = dataclasses.replace(CONTEXT, **{field: OTHERS[field]})
    seed = derive.final_seed(other, SECRET, BETA)
    assert other.encode() != CONTEXT.encode()
    assert derive.commitment(other, SECRET) != derive.commitment(CONTEXT, SECRET)
    assert seed != SEED
    assert derive.item_key(seed, "sat", 0) != derive.item_key(SEED, "sat", 0)


def test_the_seed_hangs_on_secret_and_beacon_and_the_item_on_environment_and_number():
    seeds = {SEED, derive.final_seed(CONTEXT, bytes(32), BETA), derive.final_seed(CONTEXT, SECRET, bytes(32))}
    items = {derive.item_key(SEED, environment, i) for environment in ("sat", "ded", "sa", "satt") for i in range(100)}
    assert len(seeds) == 3
    assert len(items) == 400
    assert list(derive.item_keys(SEED, "sat", 3, start=5)) == [derive.item_key(SEED, "sat", i) for i in (5, 6, 7)]


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_names_that_run_together_are_told_apart(one, other):
    contexts = [dataclasses.replace(CONTEXT, competition=name).encode() for name in (one, other)]
    assert (contexts[0] == contexts[1]) == (one == other)


@pytest.mark.parametrize(
    "change",
    [
        {"genesis": bytes(31)},
        {"genesis": "0x" + "00" * 32},
        {"netuid": 65536},
        {"netuid": -1},
        {"netuid": True},
        {"competition": ""},
        {"competition": "a" * 513},
        {"competition": "\ud800"},
        {"epoch": 2**64},
        {"epoch": 7.0},
        {"mix_round": 0},
        {"mix_round": 657513},
        {"open_round": 2**64},
        {"chain": b""},
    ],
)
def test_a_context_that_cannot_be_written_is_refused(change):
    with pytest.raises(MalformedInput):
        dataclasses.replace(CONTEXT, **change)


def test_no_error_shows_a_secret():
    secret = sha256(b"very hidden").digest()
    for refused in (
        lambda: derive.commitment(CONTEXT, secret[:31]),
        lambda: derive.final_seed(CONTEXT, secret + b"1", BETA),
        lambda: derive.item_key(secret[:16], "sat", 0),
        lambda: derive.check_opening(CONTEXT, secret, bytes(32)),
    ):
        with pytest.raises(AttestError) as caught:
            refused()
        assert secret.hex()[:16] not in str(caught.value)
        assert repr(secret)[2:12] not in str(caught.value)


def test_the_commitment_is_a_plain_hash_anyone_can_redo():
    message = derive.lp(b"integrity/seed/v1/commit") + derive.lp(CONTEXT.encode()) + derive.lp(SECRET)
    assert hmac.compare_digest(sha256(message).digest(), derive.commitment(CONTEXT, SECRET))
