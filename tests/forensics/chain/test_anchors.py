"""Anchoring a log: found again, confirmed, lost in a reorganisation, late when the chain is away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from attest.log import Log, NoteKey
from attest.log.anchor import anchor as anchor_checkpoint
from attest.log.note import Checkpoint, sign_checkpoint
from forensics.chain.anchors import CommitmentAnchors, State, confirm
from forensics.chain.evidence import collect, verify
from forensics.chain.fake import FakeSubstrate
from forensics.chain.keeping import keep_anchored, standing
from forensics.chain.recorded import Recorded, record
from forensics.chain.subtensor import Subtensor
from forensics.errors import AnchorInvalid, BadInput, ChainUnavailable
from forensics.log_store import DatabaseLog

from .conftest import NETUID, ORIGIN, SIGNER

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
KEY = NoteKey(ORIGIN, SIGNER.verifier.public_bytes)


def tree(log) -> Checkpoint:
    return log.latest().checkpoint


def grow(log, name) -> None:
    log.append([f"{name} {number}".encode() for number in range(5)])
    log.checkpoint()


def test_the_newest_checkpoint_is_anchored_once(log, anchors, substrate):
    first = keep_anchored(log, anchors)
    assert (first.size, first.anchored, first.problem, first.late) == (10, 10, "", False)
    assert first.anchor.digest == tree(log).digest()
    confirm(first.anchor, anchors.chain)
    assert keep_anchored(log, anchors) == first
    assert substrate.submitted == 1
    assert anchor_checkpoint(tree(log), anchors) == first.anchor


def test_an_older_anchor_is_found_and_confirmed_after_newer_ones_overwrote_it(log, anchors):
    first = keep_anchored(log, anchors).anchor
    grow(log, "later")
    second = keep_anchored(log, anchors).anchor
    assert second.block > first.block
    for held in (first, second):
        assert anchors.anchors(held.digest) == [held]
        confirm(held, anchors.chain)


def test_an_empty_log_is_not_anchored(bare, anchors, substrate):
    log = Log(DatabaseLog(bare), SIGNER, origin=ORIGIN)
    log.checkpoint()
    assert not keep_anchored(log, anchors).late
    assert substrate.submitted == 0


def test_a_chain_that_is_away_makes_the_anchor_late_and_nothing_else(log, anchors, substrate):
    keep_anchored(log, anchors)
    substrate.down = True
    grow(log, "meanwhile")
    late = keep_anchored(log, anchors)
    assert (late.size, late.anchored, late.late) == (15, 10, True)
    assert "no route to host" in late.problem
    assert late.anchor is not None
    substrate.down = False
    assert not keep_anchored(log, anchors).late


def test_a_refusal_is_shown_with_its_reason(log, anchors, substrate):
    substrate.refuses = "SpaceLimitExceeded"
    late = keep_anchored(log, anchors)
    assert late.late
    assert "SpaceLimitExceeded" in late.problem


def test_a_crash_between_committing_and_remembering_commits_nothing_twice(log, anchors, substrate, book):
    made = anchors.anchor(tree(log).digest())
    assert book.entries() == []
    again = keep_anchored(log, anchors)
    assert again.anchor == made
    assert substrate.submitted == 1
    assert [(held, state) for held, state, _ in book.entries()] == [(made, State.FINAL)]


def test_an_anchor_that_a_reorganisation_removed_is_noted_and_made_again(log, anchors, substrate, book):
    made = anchors.anchor(tree(log).digest())
    substrate.lag = 50
    book.add(made, State.SEEN, size=10)
    assert standing(log, anchors).late
    waiting = keep_anchored(log, anchors)
    assert waiting.late
    assert "not in a final block yet" in waiting.problem
    assert substrate.submitted == 1
    substrate.reorganise(made.block)
    substrate.lag = 3
    substrate.produce(5)
    found = keep_anchored(log, anchors)
    assert found.vanished == (made,)
    assert not found.late
    assert found.anchor.block > made.block
    assert {state for held, state, _ in book.entries() if held == made} == {State.VANISHED}
    with pytest.raises(AnchorInvalid, match="another block has this number"):
        confirm(made, anchors.chain)


def test_an_anchor_seen_becomes_final_in_its_time(log, anchors, substrate, book):
    made, old = anchors.anchor(tree(log).digest()), tree(log)
    book.add(made, State.SEEN, size=10)
    grow(log, "later")
    told = []
    keep_anchored(log, anchors, settled=lambda checkpoint, anchor: told.append((checkpoint, anchor)))
    assert told[0] == (old, made)
    assert told[1][0] == tree(log)
    assert {state for _, state, _ in book.entries()} == {State.FINAL}


def test_whoever_orders_claims_is_told_of_final_anchors_only(log, anchors, substrate, book):
    told = []
    substrate.lag = 50
    made = anchors.anchor(tree(log).digest())
    substrate.reorganise(made.block)
    substrate.lag = 3
    keep_anchored(log, anchors, settled=lambda checkpoint, anchor: told.append(anchor))
    assert told == [state_of[0] for state_of in book.entries() if state_of[1] == State.FINAL]
    assert made not in told


def test_who_was_not_told_before_a_crash_is_told_again(log, anchors, book):
    def crash(checkpoint, anchor):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_anchored(log, anchors, settled=crash)
    told = []
    keep_anchored(log, anchors, settled=lambda checkpoint, anchor: told.append(anchor))
    assert len(told) == 1


FALSE = {
    "another digest": {"digest": bytes(32)},
    "another extrinsic": {"extrinsic": 7},
    "another network": {"genesis": bytes(32)},
    "another block has this number": {"block_hash": bytes(31) + b"\x01"},
    "committed to nothing in this block": {"netuid": NETUID + 1},
    "not final": {"block": 5000},
}


@pytest.mark.parametrize("reason", FALSE)
def test_an_anchor_that_is_not_there_is_refused_by_name(log, anchors, reason):
    made = keep_anchored(log, anchors).anchor
    with pytest.raises(AnchorInvalid, match=reason):
        confirm(replace(made, **FALSE[reason]), anchors.chain)


def test_an_anchor_claimed_for_a_block_after_its_own_is_refused(log, anchors, chain, substrate):
    """The digest still stands in the state there, but it was not this block that took it."""
    made = keep_anchored(log, anchors).anchor
    substrate.produce(5)
    later = chain.block(made.block + 1)
    with pytest.raises(AnchorInvalid, match="committed to nothing in this block"):
        confirm(replace(made, block=later.number, block_hash=later.hash), anchors.chain)


def test_a_node_of_another_network_confirms_nothing(log, anchors, connect):
    made = keep_anchored(log, anchors).anchor
    with pytest.raises(AnchorInvalid, match="another network"):
        confirm(made, connect(to=FakeSubstrate(height=200, name="other")))


def test_an_unreachable_chain_neither_confirms_nor_refutes(log, anchors, substrate):
    made = keep_anchored(log, anchors).anchor
    substrate.down = True
    with pytest.raises(ChainUnavailable):
        confirm(made, anchors.chain)


def test_a_recording_answers_as_the_chain_did(log, anchors, chain):
    made = keep_anchored(log, anchors).anchor
    recorded = Recorded.parse(record(chain, netuid=NETUID, hotkeys=[made.hotkey], at=[made.block]).encode())
    confirm(made, recorded)
    assert recorded.block(made.block) == chain.block(made.block)
    assert recorded.commitments(NETUID, at=made.block) == chain.commitments(NETUID, at=made.block)
    with pytest.raises(AnchorInvalid, match="another digest"):
        confirm(replace(made, digest=bytes(32)), recorded)
    for ask in (
        lambda: recorded.block(made.block - 1),
        lambda: recorded.commitment(NETUID, bytes(32), at=made.block),
        lambda: recorded.commitments(NETUID, at=made.block + 1),
    ):
        with pytest.raises(ChainUnavailable, match="recording"):
            ask()


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"schema":"x"}', b"\xff"])
def test_what_is_no_recording_is_refused(raw):
    with pytest.raises(BadInput):
        Recorded.parse(raw)


@pytest.fixture
def file(log, anchors, chain) -> bytes:
    made = keep_anchored(log, anchors).anchor
    return collect(log.latest().note.encode(), made, chain)


def test_an_anchor_file_is_checked_offline_and_against_the_chain(file, log, chain):
    offline = verify(file, log=KEY)
    assert offline.checkpoint == tree(log)
    assert offline.block == chain.block(offline.anchor.block)
    assert verify(file, log=KEY, chain=chain) == offline


def test_a_changed_byte_of_an_anchor_file_changes_nothing_that_it_proves(file, log):
    """It is refused, or says the same: which checkpoint, in which block. What it says of time is the recording's."""
    honest = verify(file, log=KEY)
    refused = 0
    for at in range(len(file)):
        try:
            found = verify(file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :], log=KEY)
        except (BadInput, AnchorInvalid, ChainUnavailable):
            refused += 1
        else:
            assert (found.checkpoint, found.anchor) == (honest.checkpoint, honest.anchor)
    assert refused > 0.95 * len(file)


def test_an_anchor_file_is_as_its_published_schema_says(file):
    schema = json.loads((SCHEMAS / "anchor-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(file))


def test_an_anchor_file_of_another_log_is_refused(file):
    with pytest.raises(BadInput, match="another log"):
        verify(file, log=NoteKey("other.example", KEY.public))


def test_an_invented_recording_is_refuted_by_the_chain(log, anchors, chain, connect, alice):
    """A file that holds together, about a chain that somebody made up."""
    other = FakeSubstrate(registered=[(NETUID, alice.ss58_address)], name="fake")
    other.reorganise(100)
    invented = connect(alice, to=other)
    forged = CommitmentAnchors(invented, netuid=NETUID, book=anchors.book)
    note = sign_checkpoint(tree(log), SIGNER).encode()
    file = collect(note, forged.anchor(tree(log).digest()), invented)
    assert verify(file, log=KEY).anchor.block == 101
    with pytest.raises(AnchorInvalid):
        verify(file, log=KEY, chain=chain)


def test_collecting_for_a_place_that_is_not_so_fails_at_once(log, anchors, chain):
    made = keep_anchored(log, anchors).anchor
    with pytest.raises(AnchorInvalid):
        collect(log.latest().note.encode(), replace(made, extrinsic=9), chain)


def test_a_real_connection_that_cannot_be_opened_is_unavailable():
    chain = Subtensor("ws://127.0.0.1:1")
    with pytest.raises(ChainUnavailable, match=r"127\.0\.0\.1:1"):
        chain.finalized()
    chain.close()
