"""Bittensor's own client over a chain in memory: what is asked, and what is made of every answer."""

from __future__ import annotations

import pytest
from bittensor_core import Keypair

from attest.keys import ss58
from forensics.chain.decoding import commitment_of, extrinsic_of
from forensics.chain.fake import FakeSubstrate
from forensics.chain.interface import Commitment
from forensics.chain.subtensor import Subtensor
from forensics.errors import ChainRefused, ChainUnavailable, Exit, UsageError

from .conftest import NETUID

DIGEST = bytes(range(32))


def test_a_digest_is_committed_and_read_back_with_its_place(chain, substrate, alice):
    made = chain.commit(NETUID, DIGEST)
    assert made == Commitment(NETUID, bytes(alice.public_key), 101, digests=(DIGEST,))
    assert chain.extrinsic(made) == 1
    assert chain.finalized() == 101
    block = chain.block(101)
    assert block.number == 101
    assert block.time.isoformat() == "2026-11-30T12:20:12+00:00"
    assert chain.block(105) is None


def test_old_state_is_read_at_its_block(chain, substrate):
    first, second = chain.commit(NETUID, DIGEST), chain.commit(NETUID, DIGEST[::-1])
    assert chain.commitment(NETUID, chain.hotkey, at=first.block) == first
    assert chain.commitment(NETUID, chain.hotkey, at=second.block) == second
    assert chain.commitment(NETUID, chain.hotkey, at=first.block - 1) is None
    assert chain.commitment(NETUID + 1, chain.hotkey, at=second.block) is None


def test_everyones_commitments_come_in_one_question(chain, connect, alice, bob, substrate):
    mine, theirs = chain.commit(NETUID, DIGEST), connect(bob).commit(NETUID, DIGEST[::-1])
    found = chain.commitments(NETUID, at=chain.finalized())
    assert found == {bytes(alice.public_key): mine, bytes(bob.public_key): theirs}


def test_two_commitments_in_one_block_keep_their_order(chain, substrate, alice, bob):
    substrate.produce()
    for pair, digest in ((bob, DIGEST), (alice, DIGEST), (bob, DIGEST[::-1])):
        substrate.include(NETUID, pair.ss58_address, [{"Sha256": "0x" + digest.hex()}])
    at = substrate.height
    places = {key: chain.extrinsic(made) for key, made in chain.commitments(NETUID, at=at).items()}
    assert places == {bytes(alice.public_key): 2, bytes(bob.public_key): 3}


def test_networks_differ_by_their_genesis(chain, connect):
    assert len(chain.genesis()) == 32
    assert chain.genesis() != connect(to=FakeSubstrate(name="other")).genesis()


def test_text_and_timelocked_commitments_are_understood(chain, substrate, bob):
    text = b"org/model@0123456789abcdef"
    substrate.include(NETUID, bob.ss58_address, [{f"Raw{len(text)}": "0x" + text.hex()}, "None"])
    found = chain.commitments(NETUID, at=substrate.height)[bytes(bob.public_key)]
    assert (found.data, found.digests, found.sealed_until) == (text, (), None)
    sealed = {"TimelockEncrypted": {"encrypted": "0x00", "reveal_round": 77}}
    substrate.include(NETUID, bob.ss58_address, [sealed])
    found = chain.commitments(NETUID, at=substrate.height)[bytes(bob.public_key)]
    assert (found.data, found.sealed_until) == (b"", 77)


@pytest.mark.parametrize("name", ["AccountNotAllowedCommit", "SpaceLimitExceeded"])
def test_a_refusal_names_the_chains_reason_and_what_to_do(chain, substrate, name):
    substrate.refuses = name
    with pytest.raises(ChainRefused, match=name) as caught:
        chain.commit(NETUID, DIGEST)
    assert caught.value.exit == Exit.UNAVAILABLE
    assert caught.value.remedy
    assert substrate.height == 100


def test_a_hotkey_that_is_not_registered_is_refused(connect):
    with pytest.raises(ChainRefused, match="AccountNotAllowedCommit"):
        connect(Keypair.create_from_uri("//Stranger")).commit(NETUID, DIGEST)


def test_a_chain_that_cannot_be_reached_is_unavailable_and_asked_again(chain, substrate):
    substrate.down = True
    asked = (
        chain.finalized,
        chain.genesis,
        lambda: chain.block(100),
        lambda: chain.commitments(NETUID, at=100),
        lambda: chain.commit(NETUID, DIGEST),
    )
    for ask in asked:
        with pytest.raises(ChainUnavailable, match="no route to host"):
            ask()
    substrate.down = False
    assert chain.finalized() == 97


def test_pruned_or_future_state_is_unavailable_not_absent(chain):
    with pytest.raises(ChainUnavailable, match="no block at height"):
        chain.commitment(NETUID, chain.hotkey, at=5000)


def test_what_cannot_be_asked_is_said_before_asking(chain, connect):
    with pytest.raises(UsageError, match="SHA-256"):
        chain.commit(NETUID, b"short")
    with pytest.raises(UsageError, match="hotkey"):
        connect().commit(NETUID, DIGEST)
    with pytest.raises(UsageError, match="network"):
        Subtensor("nonesuch")


GOOD = {"block": 5, "deposit": 0, "info": {"fields": [{"Raw2": "0x6869"}]}}


@pytest.mark.parametrize(
    "record",
    [
        7,
        {},
        {"block": 5},
        GOOD | {"block": None},
        GOOD | {"block": "many"},
        GOOD | {"info": None},
        GOOD | {"info": {"fields": 3}},
        GOOD | {"info": {"fields": [{"Raw2": "0xzz"}]}},
        GOOD | {"info": {"fields": [{"Raw2": 5}]}},
        GOOD | {"info": {"fields": [{"Sha256": "0x00"}]}},
        GOOD | {"info": {"fields": [{"TimelockEncrypted": None}]}},
    ],
)
def test_a_node_that_answers_nonsense_is_unavailable(record):
    assert commitment_of(NETUID, DIGEST, GOOD).data == b"hi"
    with pytest.raises(ChainUnavailable, match="commitment"):
        commitment_of(NETUID, DIGEST, record)


@pytest.mark.parametrize("attributes", [None, {}, {"netuid": NETUID, "who": "nobody"}])
def test_events_that_make_no_sense_are_unavailable(attributes):
    event = {"module_id": "Commitments", "event_id": "Commitment", "attributes": attributes}
    commitment = Commitment(NETUID, DIGEST, 5)
    with pytest.raises(ChainUnavailable):
        extrinsic_of(commitment, [{"extrinsic_idx": 3, "event": event}])
    good = event | {"attributes": {"netuid": NETUID, "who": ss58.encode(DIGEST, prefix=0)}}
    assert extrinsic_of(commitment, [{"extrinsic_idx": 3, "event": good}, {"extrinsic_idx": None}]) == 3
    assert extrinsic_of(commitment, []) is None
