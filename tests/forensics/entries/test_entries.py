from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.entries.claimed import Claimed, State
from forensics.entries.entries import PATIENCE, Entries
from forensics.errors import NotKnown

GENESIS, NETUID, REVISION = "0x" + "ab" * 32, 7, "a" * 40


def claimed(hotkey: str = "ada", block: int = 10, extrinsic: int = 0, **changed) -> Claimed:
    fields = {"repo": f"{hotkey}/model", "revision": REVISION} | changed
    return Claimed(GENESIS, NETUID, hotkey, fields["repo"], fields["revision"], block, extrinsic)


@pytest.fixture
def entries(engine, clock):
    return Entries(engine, clock=clock)


def fingerprinted(entries: Entries, claim: Claimed, root: str):
    """An entry whose content is known and whose next turn is due."""
    entry = entries.accept(claim, "test")
    entries.handed_out(entry)
    assert entries.begin(entry.id, 1, State.FETCHING, among=[State.FOUND])
    assert entries.known(entry.id, 1, content_root="sha256:" + root * 64, files="sha256:" + root * 64)
    return entries.by_id(entry.id)


def judged(entries: Entries, claim: Claimed, root: str):
    entry = fingerprinted(entries, claim, root)
    entries.handed_out(entry)
    assert entries.begin(entry.id, entry.turn, State.JUDGING, among=[State.IDENTIFYING])
    assert entries.judged(entry.id, entry.turn)
    return entries.by_id(entry.id)


@given(st.lists(st.sampled_from(["genesis", "netuid", "hotkey", "repo", "revision", "block", "extrinsic"]), max_size=7))
def test_an_entry_is_named_by_all_seven_fields_and_nothing_else(names):
    one = claimed()
    changed = {name: (getattr(one, name) + 1 if isinstance(getattr(one, name), int) else "other") for name in names}
    other = Claimed(**{**{n: getattr(one, n) for n in one.__dataclass_fields__}, **changed})
    assert (one.digest == other.digest) == (not names)


def test_fields_that_run_into_each_other_name_other_entries():
    assert claimed(repo="a/b", revision="cd").digest != claimed(repo="a/bc", revision="d").digest


def test_a_claim_is_accepted_once_whoever_reports_it(entries):
    first = entries.accept(claimed(), "chain")
    second = entries.accept(claimed(), "api")
    assert first.new
    assert not second.new
    assert second.source == "chain"
    assert entries.get(first.digest).id == first.id
    assert entries.accept_all([(claimed(), None), (claimed("bob"), None)], "chain") == 1
    with pytest.raises(NotKnown):
        entries.get("sha256:" + "0" * 64)


def test_claims_made_at_once_by_many_become_one_entry(entries):
    made = []
    threads = [threading.Thread(target=lambda: made.append(entries.accept(claimed(), "api"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({e.id for e in made}) == 1
    assert sum(e.new for e in made) == 1


@pytest.mark.parametrize(
    "bad", [{"repo": ""}, {"revision": "main"}, {"revision": ""}, {"repo": "x\x00y/\x1b[2J"}, {"revision": "A" * 40}]
)
def test_a_commitment_that_names_nothing_is_refused_and_kept(entries, bad):
    entry = entries.accept(claimed(**bad), "chain")
    assert entry.state is State.REFUSED
    assert entry.code == "invalid_commitment"
    assert entries.get(entry.digest).state is State.REFUSED


def test_oversized_text_is_cut_and_found_again(entries):
    huge = claimed(repo="x" * 5000, revision="y" * 5000)
    assert entries.accept(huge, "chain").id == entries.accept(huge, "chain").id


def test_new_claims_come_before_retries_and_early_ones_before_late_ones(entries, clock):
    retried = entries.accept(claimed("rex", block=1), "chain")
    entries.handed_out(retried)
    entries.wait(retried.id, 1, reason="not_found: gone", due_at=clock())
    entries.accept(claimed("zoe", block=30), "chain")
    entries.accept(claimed("ada", block=20, extrinsic=2), "chain")
    entries.accept(claimed("bob", block=20, extrinsic=1), "chain")
    assert [e.claimed.hotkey for e in entries.due()] == ["bob", "ada", "zoe", "rex"]


def test_a_claim_waits_for_earlier_ones_but_not_for_what_cannot_be_had(entries, clock):
    entries.handed_out(early := entries.accept(claimed("ada", block=10), "chain"))
    late = fingerprinted(entries, claimed("eve", block=20), "e")
    assert late.id not in {e.id for e in entries.due()}
    entries.wait(early.id, 1, reason="not_found: 404", due_at=clock() + timedelta(minutes=1))
    assert late.id in {e.id for e in entries.due()}


def test_patience_with_an_earlier_claim_ends(entries, clock):
    entries.handed_out(entries.accept(claimed("slow", block=10), "chain"))
    late = fingerprinted(entries, claimed("eve", block=20), "e")
    assert entries.due() == []
    clock.forward(PATIENCE.total_seconds() + 1)
    assert [e.id for e in entries.due()] == [late.id]


def test_claims_of_one_place_wait_for_each_other(entries):
    entries.handed_out(entries.accept(claimed("ada", block=10), "chain"))
    fingerprinted(entries, claimed("eve", block=10), "e")
    assert entries.due() == []


def test_later_claims_of_the_same_content_are_judged_again(entries):
    before = judged(entries, claimed("old", block=5), "c")
    copy = judged(entries, claimed("eve", block=20), "c")
    stranger = judged(entries, claimed("sam", block=20, extrinsic=1), "d")
    assert entries.reopen(claimed("ada", block=10), {copy.content_root}) == 1
    states = {e.claimed.hotkey: e.state for e in entries.of(NETUID)}
    assert states == {"old": State.JUDGED, "eve": State.IDENTIFYING, "sam": State.JUDGED}
    assert before.turn == entries.by_id(before.id).turn
    assert stranger.turn == entries.by_id(stranger.id).turn


def test_whoever_is_late_changes_nothing(entries, clock):
    entry = judged(entries, claimed(), "c")
    entries.reopen(claimed("early", block=1), {entry.content_root})
    turn = entry.turn
    assert entries.begin(entry.id, turn, State.JUDGING, among=[State.IDENTIFYING]) is None
    assert not entries.judged(entry.id, turn)
    assert not entries.park(entry.id, turn, reason="x")
    assert not entries.wait(entry.id, turn, reason="x", due_at=clock())
    assert entries.by_id(entry.id).state is State.IDENTIFYING


def test_a_parked_entry_can_be_tried_anew(entries):
    entry = entries.accept(claimed(), "chain")
    entries.handed_out(entry)
    entries.park(entry.id, 1, reason="too_large: 1 TB")
    parked = entries.by_id(entry.id)
    assert (parked.state, parked.code) == (State.PARKED, "too_large")
    assert entries.revive(parked)
    assert not entries.revive(parked)
    assert [e.state for e in entries.due()] == [State.FOUND]
