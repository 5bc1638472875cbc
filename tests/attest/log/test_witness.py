"""Witnesses: what they cosign, what they refuse, and what their refusal proves to others."""

from __future__ import annotations

import pytest

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log, NoteKey, open_checkpoint, verify_receipt
from attest.log.errors import LogForked, LogFrozen, NoteInvalid, ProofInvalid
from attest.log.merkle import EMPTY_ROOT
from attest.log.note import COSIGNATURE, Checkpoint, sign_checkpoint
from attest.log.witness import SplitView, split_view, witness

from .memory import MemoryLog

SIGNER = Ed25519Signer(b"\x07" * 32)
ORIGIN = "log.example/models"
KEY = NoteKey(ORIGIN, SIGNER.verifier.public_bytes)
WITNESSES = {name: Ed25519Signer(bytes([n]) * 32) for n, name in enumerate(("w1.example", "w2.example"), 40)}
KEYS = [NoteKey(name, signer.verifier.public_bytes, COSIGNATURE) for name, signer in WITNESSES.items()]
NOON = 1_764_504_000


@pytest.fixture
def log():
    log = Log(MemoryLog(), SIGNER, origin=ORIGIN)
    log.append([f"entry {number}".encode() for number in range(300)])
    return log


def size(raw):
    return open_checkpoint(raw, log=KEY).checkpoint.size


def seen_by(name, log, seen=None, *, time=NOON, raw=None):
    raw = raw if raw is not None else log.checkpoint()
    proof = log.prove_consistency(size(seen), size(raw)) if seen else []
    return witness(raw, proof, log=KEY, seen=seen, name=name, signer=WITNESSES[name], time=time)


def test_a_log_that_grows_is_cosigned_by_all_and_receipts_carry_a_quorum(log):
    seen = dict.fromkeys(WITNESSES)
    for more in range(3):
        log.append([f"more {more} {number}".encode() for number in range(100)])
        for name in WITNESSES:
            seen[name] = seen_by(name, log, seen[name], time=NOON + more)
            log.cosigned(seen[name], KEYS)
    proven = verify_receipt(log.prove(599).encode(), log=KEY, witnesses=KEYS, quorum=2)
    assert sorted(w.name for w in proven.signed.witnesses) == list(WITNESSES)
    assert {w.time for w in proven.signed.witnesses} == {NOON + 2}
    with pytest.raises(NoteInvalid, match="too few"):
        verify_receipt(log.prove(599).encode(), log=KEY, witnesses=KEYS[:1], quorum=2)


def test_a_cosignature_that_comes_after_the_log_has_grown_still_counts(log):
    late = seen_by("w1.example", log)
    log.append([b"meanwhile"])
    newest = log.checkpoint()
    log.cosigned(late, KEYS)
    assert log.latest().note.encode() == newest
    with pytest.raises(NoteInvalid, match="too few"):
        verify_receipt(log.prove(0).encode(), log=KEY, witnesses=KEYS, quorum=1)
    log.cosigned(seen_by("w1.example", log, late), KEYS)
    assert verify_receipt(log.prove(0).encode(), log=KEY, witnesses=KEYS, quorum=1).index == 0


def test_the_same_checkpoint_may_be_cosigned_again_at_a_later_time(log):
    first = seen_by("w1.example", log)
    second = seen_by("w1.example", log, first, time=NOON + 60)
    log.cosigned(first, KEYS)
    both = open_checkpoint(log.cosigned(second, KEYS), log=KEY, witnesses=KEYS, quorum=1)
    assert len(both.note.signatures) == 3
    assert len(both.witnesses) == 1


def forked(log):
    """What the log's key signs over a copy of the database that went another way."""
    other = Log(MemoryLog(), SIGNER, origin=ORIGIN)
    other.append([log.leaf(number) for number in range(299)])
    other.append([b"another history"])
    return other


def test_two_histories_of_one_size_are_evidence_for_everybody(log):
    seen = seen_by("w1.example", log)
    other = forked(log).checkpoint()
    with pytest.raises(SplitView, match="two roots at 300 leaves") as caught:
        witness(other, [], log=KEY, seen=seen, name="w1.example", signer=WITNESSES["w1.example"], time=NOON)
    evidence = caught.value.evidence
    assert (evidence.first, evidence.second) == (seen, other)
    assert split_view(evidence.first, evidence.second, log=KEY).reason.startswith("two roots at 300 leaves")
    with pytest.raises(LogForked):
        log.observe(evidence.second)
    with pytest.raises(LogFrozen):
        log.append([b"x"])
    with pytest.raises(LogFrozen):
        log.cosigned(seen, KEYS)


def test_another_history_of_another_size_has_no_consistency_proof(log):
    seen = seen_by("w1.example", log)
    other = forked(log)
    other.append([b"longer"])
    with pytest.raises(ProofInvalid, match="another"):
        seen_by("w1.example", other, seen)
    with pytest.raises(LogForked, match="301 leaves was signed, the log has 300"):
        log.observe(other.checkpoint())
    assert len(log.evidence()) == 1


def test_going_back_is_not_cosigned(log):
    small = log.checkpoint()
    log.append([b"x"])
    seen = seen_by("w1.example", log)
    with pytest.raises(NoteInvalid, match="smaller"):
        witness(small, [], log=KEY, seen=seen, name="w1.example", signer=WITNESSES["w1.example"], time=NOON)


@pytest.mark.parametrize("proof", [[], [bytes(32)], [bytes(31)], [bytes(32)] * 70])
def test_a_proof_that_proves_nothing_is_not_cosigned(log, proof):
    seen = seen_by("w1.example", log)
    log.append([b"x"])
    raw = log.checkpoint()
    with pytest.raises(ProofInvalid):
        witness(raw, proof, log=KEY, seen=seen, name="w1.example", signer=WITNESSES["w1.example"], time=NOON)


def test_the_empty_log_is_a_beginning():
    log = Log(MemoryLog(), SIGNER, origin=ORIGIN)
    seen = seen_by("w1.example", log)
    log.append([b"first"])
    assert size(seen_by("w1.example", log, seen)) == 1
    raw, signer = log.checkpoint(), WITNESSES["w1.example"]
    with pytest.raises(ProofInvalid, match="empty"):
        witness(raw, [EMPTY_ROOT], log=KEY, seen=seen, name="w1.example", signer=signer, time=NOON)


def test_a_clock_that_jumps_back_stops_the_witness_and_one_that_jumps_ahead_is_only_a_claim(log):
    seen = seen_by("w1.example", log)
    log.append([b"x"])
    with pytest.raises(NoteInvalid, match="clock went back"):
        seen_by("w1.example", log, seen, time=NOON - 1)
    ahead = seen_by("w1.example", log, seen, time=NOON + 10**9)
    log.cosigned(ahead, KEYS)
    assert open_checkpoint(ahead, log=KEY, witnesses=KEYS).witnesses[0].time == NOON + 10**9


def test_the_log_itself_has_no_clock(log, monkeypatch):
    """Whatever the machine says of the time, the same leaves give the same bytes."""
    log.checkpoint()
    notes = []
    for moment in (0.0, 4e9, -1.0):
        monkeypatch.setattr("time.time", lambda moment=moment: moment)
        monkeypatch.setattr("time.monotonic", lambda moment=moment: moment)
        again = Log(log._storage, SIGNER, origin=ORIGIN)
        again.append([b"a", b"b"])
        notes.append((again.checkpoint(), again.prove(301).encode()))
    assert len(set(notes)) == 1


def test_strangers_prove_nothing(log):
    stranger = Ed25519Signer(b"\x63" * 32)
    raw = log.checkpoint()
    forged = sign_checkpoint(Checkpoint(ORIGIN, 300, EMPTY_ROOT), stranger).encode()
    with pytest.raises(NoteInvalid):
        split_view(raw, forged, log=KEY)
    assert split_view(raw, raw, log=KEY) is None
    with pytest.raises(NoteInvalid):  # what was seen must carry the witness's own cosignature
        seen_by("w2.example", log, seen_by("w1.example", log))
