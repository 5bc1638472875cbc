from __future__ import annotations

from dataclasses import replace

import pytest

from attest.errors import AttestError, InputTooLarge
from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log, NoteKey, open_checkpoint, verify_receipt
from attest.log.anchor import Anchor, anchor, earliest
from attest.log.audit import audit
from attest.log.errors import LogForked, LogFrozen, LogTampered, NoteInvalid, ProofInvalid, ReceiptInvalid
from attest.log.merkle import EMPTY_ROOT, hash_leaf, verify_consistency
from attest.log.note import COSIGNATURE, Checkpoint, cosign, parse_note, sign_checkpoint
from attest.log.proof import parse_receipt
from attest.log.storage import Evidence, StoredCheckpoint
from attest.log.tiles import ENTRIES, Tile

from .memory import MemoryLog

SIGNER, WITNESS = Ed25519Signer(b"\x07" * 32), Ed25519Signer(b"\x08" * 32)
ORIGIN = "log.example/models"
KEY = NoteKey(ORIGIN, SIGNER.verifier.public_bytes)
SEEN_BY = NoteKey("witness.example", WITNESS.verifier.public_bytes, COSIGNATURE)


def start(storage, known=()):
    return Log(storage, SIGNER, origin=ORIGIN, known=known)


def bodies(start, stop):
    return [f"entry {number}".encode() for number in range(start, stop)]


@pytest.fixture
def storage():
    return MemoryLog()


@pytest.fixture
def log(storage):
    log = start(storage)
    log.append(bodies(0, 300))
    log.checkpoint()
    return log


def test_an_empty_log_can_be_signed(storage):
    log = start(storage)
    assert log.latest() is None
    tree = open_checkpoint(log.checkpoint(), log=KEY).checkpoint
    assert tree == Checkpoint(ORIGIN, 0, EMPTY_ROOT)
    assert log.latest().checkpoint == tree


def test_every_leaf_has_a_receipt_that_verifies_offline(log):
    for index in (0, 1, 255, 256, 299):
        proven = verify_receipt(log.prove(index).encode(), log=KEY)
        assert (proven.index, proven.leaf) == (index, f"entry {index}".encode())
        assert proven.signed.checkpoint.size == 300
    with pytest.raises(ProofInvalid):
        log.prove(300)


def test_a_leaf_without_a_checkpoint_has_no_receipt_yet(storage):
    log = start(storage)
    log.append([b"x"])
    with pytest.raises(ProofInvalid, match="outside the tree"):
        log.prove(0)


def test_any_changed_byte_of_a_receipt_is_refused(storage):
    log = start(storage)
    log.append(bodies(0, 5))
    log.checkpoint()
    raw = log.prove(2).encode()
    assert parse_receipt(raw).encode() == raw
    for at in range(len(raw)):
        for bit in (1, 2, 32):
            with pytest.raises(AttestError):
                verify_receipt(raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :], log=KEY)
    for cut in range(len(raw)):
        with pytest.raises(AttestError):
            verify_receipt(raw[:cut], log=KEY)


def test_a_receipt_without_its_leaf_needs_it_and_one_for_another_leaf_is_named(log):
    raw = replace(log.prove(7), leaf=None).encode()
    assert verify_receipt(raw, log=KEY, leaf=b"entry 7").index == 7
    with pytest.raises(ReceiptInvalid, match="does not hold its leaf"):
        verify_receipt(raw, log=KEY)
    with pytest.raises(ProofInvalid, match="another root"):
        verify_receipt(raw, log=KEY, leaf=b"entry 8")
    with pytest.raises(ReceiptInvalid, match="another leaf"):
        verify_receipt(log.prove(7).encode(), log=KEY, leaf=b"entry 8")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"c2sp.org/tlog-proof@v2\nindex 0\n\n",
        b"c2sp.org/tlog-proof@v1\n\n",
        b"c2sp.org/tlog-proof@v1\nindex 00\n\n",
        b"c2sp.org/tlog-proof@v1\nindex -1\n\n",
        b"c2sp.org/tlog-proof@v1\nextra AB==\nindex 0\n\n",
        b"c2sp.org/tlog-proof@v1\nindex 0\nAAAA\n\n",
        b"c2sp.org/tlog-proof@v1\nindex 0\nextra AA==\n\n",
        b"c2sp.org/tlog-proof@v1\nindex \xd9\xa0\n\n",
        b"c2sp.org/tlog-proof@v1\nindex 0\n" + b"A" * 43 + b"=\n",
        b"c2sp.org/tlog-proof@v1\nindex 0\n" + (b"A" * 43 + b"=\n") * 64 + b"\n",
        b"c2sp.org/tlog-proof@v1\nextra " + b"A" * 100_000 + b"\nindex 0\n\n",
        b"x" * 300_000,
    ],
)
def test_bytes_that_are_not_quite_a_receipt_are_refused(text):
    with pytest.raises((ReceiptInvalid, ProofInvalid)):
        parse_receipt(text)


def test_an_entry_is_in_the_log_once_however_often_it_is_sent(log):
    assert log.append([b"entry 3", b"new", b"new", b"entry 299"]) == [3, 300, 300, 299]
    assert log.size() == 301
    assert log.find(b"new") == 300
    assert log.find(b"never") is None
    assert log.leaf(300) == b"new"


def test_an_entry_that_no_bundle_can_hold_is_refused(log):
    with pytest.raises(InputTooLarge, match="digest"):
        log.append([b"fine", bytes(65_536)])
    assert log.find(b"fine") is None


def test_a_size_is_signed_once(log, storage):
    first = log.checkpoint()
    assert log.checkpoint() == first
    assert start(storage).checkpoint() == first
    assert len(storage.notes) == 1


def test_checkpoints_are_consistent_with_each_other(log):
    old = log.latest().checkpoint
    log.append(bodies(300, 700))
    new = open_checkpoint(log.checkpoint(), log=KEY).checkpoint
    verify_consistency(old.size, new.size, log.prove_consistency(old.size, new.size), old.root, new.root)
    with pytest.raises(ProofInvalid, match="does not reach"):
        log.prove_consistency(1, 701)


def test_tiles_are_served_as_far_as_a_checkpoint_covers_them(log):
    log.append([b"not signed yet"])
    assert log.tile("tile/0/001.p/44")[:32] == hash_leaf(b"entry 256")
    assert len(log.tile("tile/0/000")) == 8192
    assert log.tile("tile/entries/001.p/44").startswith(b"\x00\x09entry 256")
    assert Tile.parse("tile/entries/000").level == ENTRIES
    for path in ("tile/0/001.p/45", "tile/0/001", "tile/2/000.p/1"):
        with pytest.raises(ProofInvalid, match="no such tile"):
            log.tile(path)


def test_two_writers_on_one_storage_take_turns(storage):
    one, two = start(storage), start(storage)
    for turn in range(0, 600, 60):
        (one if turn % 120 else two).append(bodies(turn, turn + 60))
    assert one.checkpoint() == two.checkpoint()
    assert audit(storage, KEY).size == 600


def test_nothing_is_remembered_of_a_transaction_that_failed(log, storage):
    def fail(_):
        raise OSError("disk full")

    storage.add_tiles, kept = fail, storage.add_tiles
    with pytest.raises(OSError, match="disk full"):
        log.append([b"lost"])
    storage.add_tiles = kept
    assert log.append([b"other"]) == [300]
    assert open_checkpoint(log.checkpoint(), log=KEY).checkpoint.size == 301
    start(storage)


def tampered_body(storage):
    storage.rows[41] = replace(storage.rows[41], body=b"other")


def tampered_leaf(storage):
    storage.rows[41] = replace(storage.rows[41], body=b"other", leaf_hash=hash_leaf(b"other"))
    storage.full.clear()


def tampered_number(storage):
    storage.rows[41] = replace(storage.rows[41], index=42)


def tampered_tile(storage):
    hashes, root = storage.full[0, 0]
    storage.full[0, 0] = (b"\x00" + hashes[1:], root)


def tampered_tile_root(storage):
    storage.full[0, 0] = (storage.full[0, 0][0], EMPTY_ROOT)


def removed_tile(storage):
    storage.full.clear()


def invented_tile(storage):
    storage.full[0, 9] = storage.full[0, 0]


def removed_leaves(storage):
    del storage.rows[280:]


def swapped_leaves(storage):
    first, second = storage.rows[280:282]
    storage.rows[280:282] = [replace(second, index=280), replace(first, index=281)]


def tampered_checkpoint(storage):
    storage.notes[0] = replace(storage.notes[0], root=EMPTY_ROOT)


def forged_checkpoint(storage):
    note = sign_checkpoint(Checkpoint(ORIGIN, 5, EMPTY_ROOT), WITNESS).encode()
    storage.notes.append(StoredCheckpoint(5, EMPTY_ROOT, note))


TAMPERINGS = [
    tampered_body,
    tampered_leaf,
    tampered_number,
    tampered_tile,
    tampered_tile_root,
    removed_tile,
    invented_tile,
    removed_leaves,
    swapped_leaves,
    tampered_checkpoint,
    forged_checkpoint,
]


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_start_up_refuses_a_storage_that_was_tampered_with(log, storage, tamper):
    tamper(storage)
    with pytest.raises(LogTampered) as caught:
        start(storage)
    assert caught.value.code == "log_tampered"
    assert len(storage.notes) <= 2
    assert not storage.proof


def test_a_running_log_signs_nothing_over_leaves_that_vanished_or_tiles_that_changed(log, storage):
    log.append(bodies(300, 520))
    kept = dict(storage.full)
    storage.full[0, 1] = (storage.full[0, 1][0], EMPTY_ROOT)
    with pytest.raises(LogTampered, match="another root"):
        log.checkpoint()
    storage.full = kept
    del storage.rows[400:]
    for act in (log.checkpoint, lambda: log.append([b"x"])):
        with pytest.raises(LogTampered, match="vanished"):
            act()


def test_a_database_set_back_is_found_by_a_checkpoint_kept_elsewhere(log, storage):
    log.append(bodies(300, 400))
    witness_has = log.checkpoint()
    del storage.rows[300:], storage.notes[1:]
    with pytest.raises(LogForked, match="400 leaves was signed, the log has 300"):
        start(storage, known=[witness_has])
    assert storage.proof[0].second == witness_has
    assert storage.proof[0].first == storage.notes[0].note
    with pytest.raises(LogFrozen):
        start(storage).append([b"x"])


def test_equivocation_freezes_the_log_and_both_checkpoints_are_kept(log, storage):
    ours = log.checkpoint()
    other = sign_checkpoint(Checkpoint(ORIGIN, 300, hash_leaf(b"another history")), SIGNER).encode()
    for _ in range(2):
        with pytest.raises(LogForked) as caught:
            log.observe(other)
        assert caught.value.code == "log_forked"
    (evidence,) = log.evidence()
    assert (evidence.first, evidence.second) == (ours, other)
    for act in (log.checkpoint, lambda: log.append([b"x"]), lambda: start(storage).checkpoint()):
        with pytest.raises(LogFrozen, match="two roots at 300 leaves") as frozen:
            act()
        assert frozen.value.code == "log_frozen"
    assert verify_receipt(log.prove(5).encode(), log=KEY).index == 5


def test_checkpoints_of_this_tree_and_notes_of_strangers_do_not_freeze(log):
    old = log.checkpoint()
    log.append([b"x"])
    log.observe(old)
    with pytest.raises(NoteInvalid):
        log.observe(sign_checkpoint(Checkpoint(ORIGIN, 1, EMPTY_ROOT), WITNESS).encode())
    assert log.evidence() == ()


def test_cosignatures_travel_in_receipts(log, storage):
    note = parse_note(log.checkpoint())
    raw = cosign(note, SEEN_BY.name, WITNESS, time=1_764_500_000).encode()
    assert log.cosigned(raw, [SEEN_BY]) == raw
    assert log.cosigned(raw, [SEEN_BY]) == raw
    assert len(storage.notes) == 2
    proven = verify_receipt(log.prove(9).encode(), log=KEY, witnesses=[SEEN_BY], quorum=1)
    assert proven.signed.witnesses[0].name == SEEN_BY.name
    with pytest.raises(NoteInvalid, match="too few witnesses"):
        log.cosigned(note.encode(), [SEEN_BY])
    start(storage)


def test_a_forged_cosignature_is_not_taken_over(log):
    note = parse_note(log.checkpoint())
    forged = cosign(note, SEEN_BY.name, WITNESS, time=1)
    line = replace(forged.signatures[1], signature=bytes(72))
    with pytest.raises(NoteInvalid):
        log.cosigned(replace(note, signatures=(*note.signatures, line)).encode(), [SEEN_BY])


class FakeChain:
    """A substrate that holds digests: one block for each extrinsic."""

    def __init__(self):
        self.held: list[Anchor] = []

    def anchor(self, digest):
        self.held.append(Anchor(1000 + 10 * len(self.held), 2, b"\x00" * 32, 120, b"operator", digest))
        return self.held[-1]

    def anchors(self, digest):
        return [held for held in self.held if held.digest == digest]


def test_a_checkpoint_is_anchored_once_and_its_first_block_counts(log):
    chain, tree = FakeChain(), log.latest().checkpoint
    first = anchor(tree, chain)
    assert (first.block, first.digest) == (1000, tree.digest())
    assert anchor(tree, chain) == first
    later = replace(first, block=900, hotkey=b"somebody")
    unrelated = replace(first, block=1, digest=EMPTY_ROOT)
    assert earliest(tree, [first, later, unrelated]) == later
    assert earliest(tree, [first, later, unrelated], signer=b"operator") == first
    assert earliest(tree, [unrelated]) is None


def test_evidence_found_at_start_keeps_the_log_readable(log, storage):
    storage.add_evidence(Evidence("two roots", b"a", b"b"))
    frozen = start(storage)
    assert frozen.leaf(3) == b"entry 3"
    with pytest.raises(LogFrozen):
        frozen.checkpoint()
    with pytest.raises(ProofInvalid, match="no such leaf"):
        frozen.leaf(-1)
