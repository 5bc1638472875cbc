"""Findings and verdicts on both databases: each judged once, nothing lost, the newest counts."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from attest.predicates.decision import Outcome
from attest.predicates.verdict import Status
from detectors.operators import Held, further
from forensics.errors import NotKnown
from forensics.policy import default
from forensics.policy.policy import Keeps, Operators
from forensics.store.blobs import Blobs
from forensics.store.chain import NeuronRow, SwapRow
from forensics.store.engine import connect, reading, writing
from forensics.store.entries import EntryRow
from forensics.store.verdicts import ExaminationRow, FindingRow, VerdictRow
from forensics.verdicts import Decision, Verdicts
from forensics.verdicts.owners import ChainOwners
from forensics.verdicts.store import findings_of
from tests.forensics.attesting import GENESIS, NETUID
from tests.forensics.verdicts.field import Seat, hotkey, revision
from tests.forensics.verdicts.test_judge import digest, finding

FORK = multiprocessing.get_context("fork")
COPY, OTHER = finding("copy.perturbed", 1e-9), finding("copy.identical", 1e-12)


def count(engine, table) -> int:
    with reading(engine) as session:
        return session.scalar(select(func.count()).select_from(table))


def test_a_submission_is_judged_once_for_the_same_inputs(field):
    entry = field.commit("a", block=5, state="judging")
    field.verdicts.record_findings(entry, [COPY])
    first = field.verdicts.judge(entry)
    again = field.verdicts.judge(entry)
    assert (first.new, first.number, first.verdict.status) == (True, 1, Status.PENALISED)
    assert (again.new, again.number, again.data) == (False, 1, first.data)
    assert not field.verdicts.record_findings(entry, [COPY])
    assert count(field.engine, VerdictRow) == count(field.engine, ExaminationRow) == 1


def test_what_a_detector_no_longer_says_no_longer_counts_and_stays_on_record(field):
    entry = field.commit("a", block=5, state="judging")
    field.verdicts.record_findings(entry, [COPY, OTHER])
    assert field.verdicts.judge(entry).verdict.status is Status.PENALISED
    field.verdicts.record_findings(entry, [])
    cleared = field.verdicts.judge(entry)
    assert (cleared.number, cleared.verdict.status) == (2, Status.CLEAR)
    field.verdicts.record_findings(entry, [COPY, OTHER])
    back = field.verdicts.judge(entry)
    assert (back.number, back.verdict.status) == (3, Status.PENALISED)
    assert count(field.engine, FindingRow) == 2
    statuses = [v.status for v in field.verdicts.history(GENESIS, NETUID, hotkey("a"), revision("a"))]
    assert statuses == [Status.PENALISED, Status.CLEAR, Status.PENALISED]


def test_detectors_do_not_take_the_place_of_one_another(field):
    entry = field.commit("a", block=5, state="judging")
    field.verdicts.record_findings(entry, [COPY])
    field.verdicts.record_findings(entry, [], detector="sybil@1")
    with reading(field.engine) as session:
        findings, examined = findings_of(session, [entry])[entry]
    assert [f.digest for f in findings] == [COPY.digest]
    assert examined == ("copy@1", "sybil@1")


def test_an_entry_that_does_not_exist_cannot_be_judged(field):
    with pytest.raises(NotKnown):
        field.verdicts.judge(99)
    with pytest.raises(NotKnown):
        field.verdicts.record_findings(99, [])


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("found", None, "pending"),
        ("fetching", None, "pending"),
        ("waiting", "not_found: the hub says 404", "not_found"),
        ("parked", "unsupported_checkpoint: GGUF of a new kind", "unsupported_checkpoint"),
        ("parked", "Something Odd", "unavailable"),
        ("parked", None, "unavailable"),
        ("refused", "multiple_commits:count=3", "multiple_commits"),
    ],
)
def test_what_could_not_be_looked_at_is_unknown_and_says_why(field, state, reason, code):
    verdict = field.verdicts.judge(field.commit("a", block=5, state=state, reason=reason)).verdict
    assert (verdict.status, verdict.multiplier, verdict.reasons[0].code) == (Status.UNKNOWN, "1.0", code)


def test_a_repository_that_vanishes_after_it_was_seen_takes_nothing_back(field):
    entry = field.commit("a", block=5, state="judging")
    field.verdicts.record_findings(entry, [COPY])
    before = field.verdicts.judge(entry)
    with writing(field.engine) as session:
        row = session.get_one(EntryRow, entry)
        row.state, row.reason = "parked", "not_found: the hub says 404"
    after = field.verdicts.judge(entry)
    assert (after.new, after.data) == (False, before.data)


def test_a_refused_commitment_is_rejected_where_the_policy_says_so_with_evidence(field):
    entry = field.commit("a", block=5, state="refused", reason="multiple_commits:count=3")
    codes = dict(default().findings) | {"commit.multiple_commits": Status.REJECTED}
    strict = field.judging(replace(default(), findings=codes))
    verdict = strict.judge(entry).verdict
    assert (verdict.status, verdict.multiplier) == (Status.REJECTED, "0.0")
    (reason,) = verdict.reasons
    assert reason.code == "commit.multiple_commits"
    assert b"count=3" in field.blobs.get(reason.evidence)


def test_the_newest_submission_of_a_hotkey_counts_also_before_it_is_judged(field):
    old = field.enter("a", block=5, extrinsic=0, state="judging", reason=None)
    field.verdicts.record_findings(old, [COPY])
    field.verdicts.judge(old)
    assert field.verdicts.current(GENESIS, NETUID)[hotkey("a")].verdict.status is Status.PENALISED
    field.enter("a", block=9, extrinsic=0, state="found", reason=None)
    current = field.verdicts.current(GENESIS, NETUID)[hotkey("a")]
    assert (current.verdict, current.subject.block, current.subject.unknown) == (None, 9, "pending")
    assert field.verdicts.current(GENESIS, NETUID + 1) == {}


def test_a_decision_is_obeyed_and_makes_a_new_verdict(field):
    entry = field.commit("a", block=5, state="judging")
    field.verdicts.record_findings(entry, [COPY])
    field.verdicts.judge(entry)
    cleared = Decision(digest("decision"), "case:7", Outcome.OVERTURNED)
    judged = field.judging(default(), decisions=lambda _: [cleared]).judge(entry)
    assert (judged.number, judged.verdict.status, judged.verdict.case) == (2, Status.CLEAR, "case:7")


def test_under_another_policy_everything_is_judged_again_when_a_snapshot_is_due(field):
    entry = field.commit("a", block=5, state="judging")
    field.verdicts.record_findings(entry, [COPY])
    field.verdicts.judge(entry)
    seats = [Seat(0, hotkey("a"))]
    assert field.publisher().publish(NETUID, 1, seats).verdicts().verdicts[0].multiplier == "0.0"
    milder = {**default().multipliers, "penalised": "0.25"}
    field.verdicts = field.judging(replace(default(), version=2, multipliers=milder))
    said = field.publisher().publish(NETUID, 2, seats).verdicts()
    assert (said.policy.version, said.verdicts[0].multiplier) == (2, "0.25")
    assert field.verdicts.catch_up(GENESIS, NETUID) == 0


def _judge(url: str, blobs: str, entry: int, gate, said) -> None:
    engine = connect(url, busy_seconds=30)
    verdicts = Verdicts(engine, Blobs(blobs), policy=default())
    gate.wait()
    recorded = [(verdicts.record_findings(entry, [COPY]), verdicts.judge(entry).new) for _ in range(5)]
    said.put([sum(news) for news in zip(*recorded, strict=True)])
    engine.dispose()


def test_workers_that_judge_one_submission_at_once_judge_it_once(field, database_url, tmp_path):
    entry = field.commit("a", block=5, state="judging")
    field.engine.dispose()
    gate, said = FORK.Event(), FORK.SimpleQueue()
    told = (database_url, (tmp_path / "blobs").as_uri(), entry, gate, said)
    workers = [FORK.Process(target=_judge, args=told) for _ in range(4)]
    for worker in workers:
        worker.start()
    gate.set()
    news = [said.get() for _ in workers]
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert [sum(column) for column in zip(*news, strict=True)] == [1, 1]
    assert (
        count(field.engine, VerdictRow) == count(field.engine, FindingRow) == count(field.engine, ExaminationRow) == 1
    )


def neuron(name: str, cold: str, *, since: int = 1) -> NeuronRow:
    fields = {"genesis": GENESIS, "netuid": NETUID, "uid": since, "hotkey": hotkey(name), "coldkey": cold}
    times = {"registered": since, "permit": False, "endpoint": None, "registrant": None, "since": since, "until": None}
    return NeuronRow(**{key: value for key, value in (fields | times).items() if hasattr(NeuronRow, key)})


def swap(old: str, new: str, block: int) -> SwapRow:
    fields = {"genesis": GENESIS, "netuid": NETUID, "old": hotkey(old), "new": hotkey(new), "block": block}
    return SwapRow(**fields, extrinsic=0, exact=True)


def test_owners_are_those_the_chain_shows(field):
    owners = ChainOwners(field.engine, GENESIS)
    assert owners.coldkey(hotkey("a")) is None
    with writing(field.engine) as session:
        session.add_all([neuron("a", "cold one"), neuron("b", "", since=2), neuron("a", "cold two", since=3)])
    assert owners.coldkey(hotkey("a")) == "cold two"
    assert owners.coldkey(hotkey("b")) is None
    assert owners.operator(hotkey("c")) == hotkey("c")
    with writing(field.engine) as session:
        session.add_all([swap("a", "b", 10), swap("b", "c", 20)])
    assert {owners.operator(hotkey(name)) for name in "abc"} == {hotkey("a")}
    assert owners.operator(hotkey("d")) == hotkey("d")
    with writing(field.engine) as session:
        session.add(swap("c", "a", 30))  # round in a circle: still an answer
    assert owners.operator(hotkey("c")) in {hotkey(name) for name in "abc"}


def test_an_owner_may_enter_as_often_as_the_policy_says(field):
    owners = {"a": "cold", "b": "cold", "c": "other", "d": ""}
    seats = [Seat(uid, hotkey(name), cold) for uid, (name, cold) in enumerate(owners.items())]
    for block, name in enumerate("bacd"):
        entry = field.commit(name, block=block, state="judging")
        field.verdicts.record_findings(entry, [])
        field.verdicts.judge(entry)
    assert {v.status for v in field.publisher().publish(NETUID, 1, seats).verdicts().verdicts} == {Status.CLEAR}
    one = replace(
        default(),
        operators=Operators(1, Keeps.EARLIEST),
        findings={**default().findings, "operator.*": Status.REJECTED},
    )
    field.verdicts = field.judging(one)
    said = field.publisher().publish(NETUID, 2, seats).verdicts().verdicts
    assert [v.status for v in said] == [Status.REJECTED, Status.CLEAR, Status.CLEAR, Status.CLEAR]
    assert said[0].reasons[0].of.hotkey == hotkey("b")
    assert b"cold" in field.blobs.get(said[0].reasons[0].evidence)
    gone = [seat for seat in seats if seat.hotkey != hotkey("b")]
    assert field.publisher().publish(NETUID, 3, gone).verdicts().verdicts[0].status is Status.CLEAR


def test_which_entries_of_an_owner_are_further_ones():
    held = [Held(name, "cold", "", block, 0) for name, block in (("x", 3), ("y", 1), ("z", 2))]
    assert sorted(further(held, allowed=1)) == ["x", "z"]
    assert sorted(further(held, allowed=1, newest=True)) == ["y", "z"]
    assert sorted(further(held, allowed=2)) == ["x"]
    assert further(held, allowed=3) == {}
    assert further([Held("x", "", "", 1, 0), Held("y", "", "", 2, 0)], allowed=1) == {}
