"""Epochs of honest and dishonest operators, as a stranger sees them."""

from __future__ import annotations

import dataclasses
import json
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import envelope
from attest.checking import Expected
from attest.errors import AttestError, MalformedInput
from attest.keys.ed25519 import Ed25519Signer
from attest.log.note import NoteKey
from attest.log.proof import parse_receipt
from attest.predicates.seeds import Step
from attest.seeds import derive
from attest.seeds.beacon import value
from attest.seeds.course import ORDER
from attest.seeds.epoch_file import EpochFile
from attest.seeds.plan import Environment, Plan
from attest.seeds.report import Outcome, Report
from attest.seeds.verify import ANCHOR_MARGIN, REVEAL_GRACE, verify

from .material import AFTER, CONTEXT, LEAGUE, MIX, OPEN, ORIGIN, OTHER, PLAN, ROSTER, SECRET, SERVICE, Operator

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
KEY = NoteKey(ORIGIN, SERVICE.verifier.public_bytes)
HONEST = Operator().file()
SEED = derive.final_seed(CONTEXT, SECRET, value(LEAGUE.sign(MIX)))
LINKS = [
    *("statement", "inclusion", "batch", "anchor", "steps", "beacon"),
    *("reveal", "opening", "timelock", "seed", "items"),
]


def looked_at(epoch: EpochFile, **changes) -> Report:
    parts = {"key": KEY, "now": AFTER, "network": LEAGUE.network}
    return verify(epoch, **(parts | changes))


def outcomes(report: Report) -> dict[str, Outcome]:
    return {link.name: link.outcome for link in report.links}


def changed(**parts) -> EpochFile:
    return dataclasses.replace(HONEST, **parts)


def test_an_honest_epoch_verifies_in_every_link():
    report = looked_at(EpochFile.parse(HONEST.encode()))
    assert [link.name for link in report.links] == LINKS
    assert report.complete
    assert report.wrong is None
    assert report.seed == SEED
    assert report.context == CONTEXT
    assert report.roster == ROSTER


GIVEN_UP = {"anchored": False, "revealed": False, "course": (Step.VOID,), "void_reason": "unanchored"}
FAULTS = {
    "late_commitment": ("anchor", {"anchored_before_mix": ANCHOR_MARGIN - 1}),
    "unanchored": (
        "anchor",
        {"anchored": False, "revealed": False, "course": (Step.VOID,), "void_reason": "unanchored"},
    ),
    "void_after_open": ("steps", {"course": (*ORDER[:3], Step.VOID), "revealed": False}),
    "after_void": ("steps", {"course": (Step.ANCHORED, Step.VOID, Step.OPEN)}),
    "out_of_order": ("steps", {"course": (Step.ANCHORED, Step.OPEN, Step.MIXING, Step.CLOSED)}),
    "wrong_beacon": ("reveal", {"mix_in_reveal": LEAGUE.sign(MIX + 1)}),
    "wrong_opening": ("opening", {"secret": OTHER}),
    "timelock_other_secret": ("timelock", {"locked_secret": OTHER}),
    "timelock_does_not_open": ("timelock", {"locked_round": OPEN + 1}),
    "wrong_seed": ("seed", {"seed": sha256(b"preferred").digest()}),
    "other_items": ("items", {"handed_seed": sha256(b"preferred").digest()}),
}


@pytest.mark.parametrize("code", FAULTS)
def test_every_fault_of_an_operator_is_proven_and_named(code):
    link, dishonest = FAULTS[code]
    report = looked_at(Operator(**dishonest).file())
    assert (report.wrong.name, report.wrong.code, report.wrong.outcome) == (link, code, Outcome.FAULT)
    assert all(found.outcome is not Outcome.BROKEN for found in report.links)


@pytest.mark.parametrize("before", [0, -1, -1000, ANCHOR_MARGIN - 1])
def test_a_commitment_at_or_after_the_beacon_is_late(before):
    assert looked_at(Operator(anchored_before_mix=before).file()).wrong.code == "late_commitment"


def test_the_margin_itself_is_early_enough():
    assert looked_at(Operator(anchored_before_mix=ANCHOR_MARGIN).file()).complete


LONG_AFTER = LEAGUE.network.time_of(OPEN) + REVEAL_GRACE + 1


def test_silence_after_the_opening_round_is_a_fault_by_the_whole_log_and_hides_nothing():
    operator = Operator(revealed=False)
    silent, watch = operator.file(), operator.watch()
    assert looked_at(silent, now=LONG_AFTER - 1, watch=watch).wrong is None
    report = looked_at(silent, now=LONG_AFTER, watch=watch)
    assert (report.wrong.name, report.wrong.code) == ("reveal", "missing_reveal")
    assert report.seed == SEED, "the timelock opens what the operator withholds"
    assert outcomes(report)["items"] is Outcome.OK


def test_a_secret_shown_before_the_opening_round_is_a_fault_by_the_readers_clock():
    running = changed(open_signature=None)
    early = LEAGUE.network.time_of(OPEN) - 1
    assert looked_at(running, now=early).wrong.code == "early_reveal"
    assert looked_at(HONEST, now=early).wrong is None, "the beacon's own signature says that the round is out"


def test_a_secret_in_an_early_block_is_a_fault_when_the_chain_has_it():
    early = Operator(reveal_stamp=LEAGUE.network.time_of(OPEN) - 1).file()
    assert looked_at(early, confirm=lambda stamp: None).wrong.code == "early_reveal"
    report = looked_at(early)
    assert (report.wrong, report.unproven[0].name) == (None, "reveal")


# What nobody signed


def without(name: str) -> EpochFile:
    """The honest file without its anchor, or with a late one, or without reveal or steps."""
    late = dataclasses.replace(HONEST.stamps[0], block=99, block_time=LEAGUE.network.time_of(MIX) + 5)
    cut = {"reveal": None, "consistency": None}
    return {
        "anchor": changed(stamps=()),
        "anchor, steps": changed(stamps=(), steps=(), **cut),
        "late anchor": changed(stamps=(late,)),
        "late anchor, steps": changed(stamps=(late,), steps=(), **cut),
        "reveal": changed(**cut),
        "reveal, last step": changed(steps=HONEST.steps[:3], **cut),
        "reveal, steps": changed(steps=(), **cut),
        "first step": changed(steps=HONEST.steps[1:]),
        "middle step": changed(steps=HONEST.steps[:1] + HONEST.steps[2:]),
        "last step": changed(steps=HONEST.steps[:3]),
        "order": changed(steps=HONEST.steps[::-1]),
    }[name]


UNSIGNED = {
    "anchor": ("anchor", Outcome.BROKEN, "anchor_left_out"),
    "anchor, steps": ("anchor", Outcome.UNPROVEN, "unanchored"),
    "late anchor": ("anchor", Outcome.BROKEN, "other_anchor"),
    "late anchor, steps": ("anchor", Outcome.UNPROVEN, "late_commitment"),
    "reveal": ("reveal", Outcome.UNPROVEN, "missing_reveal"),
    "reveal, last step": ("reveal", Outcome.UNPROVEN, "missing_reveal"),
    "reveal, steps": ("reveal", Outcome.UNPROVEN, "missing_reveal"),
    "first step": ("steps", Outcome.BROKEN, "step_missing"),
    "middle step": ("steps", Outcome.BROKEN, "step_missing"),
    "last step": ("steps", Outcome.BROKEN, "step_missing"),
    "order": ("steps", Outcome.BROKEN, "steps_reordered"),
}


@pytest.mark.parametrize("name", UNSIGNED)
def test_what_anybody_could_have_changed_blames_nobody(name):
    link, outcome, code = UNSIGNED[name]
    report = looked_at(without(name), now=LONG_AFTER)
    first = next(found for found in report.links if found.outcome not in (Outcome.OK, Outcome.NOT_CHECKED))
    assert (first.name, first.outcome, first.code) == (link, outcome, code)
    assert report.faults == ()
    assert not report.complete


@pytest.mark.parametrize("name", UNSIGNED)
def test_with_the_log_and_a_chain_that_has_a_later_anchor_too_nobody_is_blamed(name):
    """Anybody can put a public digest into a later block, and cut the earlier one out of the file."""
    operator = Operator()
    operator.file()
    report = looked_at(without(name), now=LONG_AFTER, watch=operator.watch(), confirm=lambda stamp: None)
    assert report.faults == ()
    assert not report.complete
    assert looked_at(without(name), now=LONG_AFTER, confirm=lambda stamp: None).faults == ()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_edit_of_unsigned_parts_blames_the_operator(data):
    times = st.integers(0, 2 * LONG_AFTER)
    stamps = st.builds(
        lambda block, time: dataclasses.replace(HONEST.stamps[0], block=block, block_time=time),
        st.integers(0, 99),
        times,
    )
    edited = changed(
        stamps=tuple(data.draw(st.lists(stamps, max_size=3))),
        steps=tuple(data.draw(st.lists(st.sampled_from(HONEST.steps), max_size=5))),
        reveal=data.draw(st.sampled_from([HONEST.reveal, None])),
        consistency=data.draw(st.sampled_from([HONEST.consistency, None])),
        batch_path=data.draw(st.sampled_from([HONEST.batch_path, None, ()])),
        mix_signature=data.draw(st.sampled_from([HONEST.mix_signature, None])),
        open_signature=data.draw(st.sampled_from([HONEST.open_signature, None])),
    )
    report = looked_at(edited, now=LONG_AFTER)
    assert report.faults == ()
    assert report.complete == (edited == HONEST)


def test_a_late_block_that_the_chain_has_is_a_fault_of_who_opened_the_epoch_all_the_same():
    skipped = Operator(anchored_before_mix=-5, course=ORDER[1:])
    file, watch = skipped.file(), skipped.watch()
    assert looked_at(file).faults == ()
    report = looked_at(file, watch=watch, confirm=lambda stamp: None)
    assert [(found.name, found.code) for found in report.faults] == [
        ("anchor", "late_commitment"),
        ("steps", "step_skipped"),
    ]
    never = dataclasses.replace(file, stamps=())
    assert looked_at(never, watch=watch).wrong.code == "unanchored"


def test_a_void_after_the_opening_hides_no_missing_reveal():
    operator = Operator(revealed=False, course=(*ORDER[:3], Step.VOID))
    report = looked_at(operator.file(), now=LONG_AFTER, watch=operator.watch())
    assert [(found.name, found.code) for found in report.faults] == [
        ("steps", "void_after_open"),
        ("reveal", "missing_reveal"),
    ]
    assert report.void == ""
    hidden = dataclasses.replace(operator.file(), steps=operator.file().steps[-1:])
    assert looked_at(hidden, now=LONG_AFTER, watch=operator.watch()).void == "", "leaving OPEN out does not help either"


def test_a_void_before_the_opening_needs_no_reveal():
    operator = Operator(revealed=False, course=(*ORDER[:2], Step.VOID))
    report = looked_at(operator.file(), now=LONG_AFTER, watch=operator.watch())
    assert (report.wrong, report.void, report.unproven) == (None, "window_missed", ())


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((0, 2, 3), "mixing is missing before open (leaf 3)"),
        ((0, 1, 3), "open is missing before closed (leaf 4)"),
        ((0,), "mixing and open and closed is missing before the reveal (leaf 5)"),
        ((), "anchored and mixing and open and closed is missing before the reveal (leaf 5)"),
        ((0, 2, 1, 3), "steps 1 and 2"),
        ((0, 1, 2, 3, 1), "steps 1 and 4"),
    ],
)
def test_the_first_wrong_step_is_named(steps, said):
    report = looked_at(changed(steps=tuple(HONEST.steps[place] for place in steps)))
    assert report.wrong.name == "steps"
    assert said in report.wrong.detail


def test_a_file_older_than_the_log_says_so():
    operator = Operator()
    operator.file()
    older = changed(steps=HONEST.steps[:2], reveal=None, consistency=None)
    report = looked_at(older, now=LONG_AFTER, watch=operator.watch())
    assert [(link.name, link.code) for link in report.unproven] == [
        ("steps", "older_than_log"),
        ("reveal", "reveal_left_out"),
    ]


def test_two_secrets_in_one_commitment_cannot_both_pass():
    """Committed to one, locked another, revealed the committed one: the lock betrays it; and the other way round."""
    swapped = Operator(secret=OTHER, committed_secret=OTHER).file()
    assert looked_at(swapped).wrong.code == "timelock_other_secret"
    assert looked_at(Operator(secret=OTHER, locked_secret=OTHER).file()).wrong.code == "wrong_opening"


def test_before_its_time_an_epoch_is_pending_not_wrong():
    young = changed(mix_signature=None, open_signature=None, reveal=None, consistency=None, steps=HONEST.steps[:1])
    report = looked_at(young, now=LEAGUE.network.time_of(MIX) - 1000)
    found = outcomes(report)
    assert report.wrong is None
    assert not report.complete
    assert [found[name] for name in ("beacon", "reveal", "timelock")] == [Outcome.PENDING] * 3
    assert found["seed"] is Outcome.NOT_CHECKED
    assert report.seed is None


def test_without_the_secret_nothing_about_items_follows_from_public_files():
    """Between mixing and opening: everything is public but s. Neither seed nor any key is in reach of the file."""
    running = changed(open_signature=None, reveal=None, consistency=None, steps=HONEST.steps[:3])
    report = looked_at(running, now=LEAGUE.network.time_of(MIX) + 60)
    assert report.seed is None
    assert report.wrong is None
    assert SECRET.hex() not in running.encode().decode()
    assert SEED.hex() not in running.encode().decode()
    for index in range(9):
        assert derive.item_key(SEED, "sat", index).hex() not in running.encode().decode()


def test_an_epoch_that_was_opened_twice_is_a_fault():
    operator = Operator()
    first = operator.file()
    again = operator.opening(derive.commitment(CONTEXT, SECRET), state_of(first), sha256(b"other").digest())
    twice = dataclasses.replace(first, steps=(*first.steps, operator.logged(again).decode()))
    assert looked_at(twice).wrong.code == "said_twice"


def test_one_statement_given_twice_blames_nobody():
    doubled = changed(steps=(*HONEST.steps, HONEST.steps[0]))
    report = looked_at(doubled)
    assert (report.wrong.name, report.wrong.outcome, report.faults) == ("steps", Outcome.BROKEN, ())


def state_of(epoch: EpochFile) -> str:
    """Digest of the commitment's statement in a file."""
    leaf = parse_receipt(epoch.commitment.encode()).leaf
    return envelope.read(leaf).digest


BROKEN = {
    "statement": {"plan": Plan.of(Environment("sat", 6, 2))},
    "batch": {"batch_path": HONEST.batch_path[::-1] if len(HONEST.batch_path) > 1 else ("00" * 32,)},
    "beacon": {"mix_signature": LEAGUE.sign(MIX + 1).hex()},
    "steps": {"steps": (HONEST.commitment,)},
    "reveal": {"consistency": ("00" * 32,)},
    "timelock": {"open_signature": LEAGUE.sign(MIX).hex()},
}


@pytest.mark.parametrize("link", BROKEN)
def test_a_file_that_was_tampered_with_is_broken_and_blames_nobody(link):
    report = looked_at(changed(**BROKEN[link]))
    assert (report.wrong.name, report.wrong.outcome) == (link, Outcome.BROKEN)
    assert report.faults == () or link == "statement"


def test_another_key_proves_nothing():
    stranger = NoteKey(ORIGIN, Ed25519Signer(sha256(b"stranger").digest()).verifier.public_bytes)
    report = looked_at(HONEST, key=stranger)
    assert report.wrong.name == "statement"
    assert report.seed is None
    assert report.context is None


def test_an_epoch_of_another_subnet_is_refused_where_one_is_expected():
    elsewhere = Expected("0x" + "11" * 32, 120, None)
    assert looked_at(HONEST, expected=elsewhere).wrong.code == "context_mismatch"
    here = Expected("0x" + CONTEXT.genesis.hex(), 120, "demo")
    assert looked_at(HONEST, expected=here).complete


def test_a_chain_that_can_be_asked_is_asked():
    asked = []

    def confirm(stamp):
        asked.append(stamp)
        raise MalformedInput("the block holds another digest", where="block 9")

    report = looked_at(HONEST, confirm=confirm)
    assert asked == [HONEST.stamps[0]]
    assert (report.wrong.name, report.wrong.outcome) == ("anchor", Outcome.BROKEN)
    assert "confirmed" in looked_at(HONEST, confirm=lambda stamp: None).links[3].detail


def test_an_anchor_on_another_chain_does_not_count():
    stamp = dataclasses.replace(HONEST.stamps[0], genesis="0x" + "22" * 32)
    assert looked_at(changed(stamps=(stamp,))).wrong.code == "anchor_left_out"


def test_a_reveal_of_another_epoch_does_not_fit():
    other = Operator(committed_secret=OTHER, secret=OTHER, locked_secret=OTHER).file()
    report = looked_at(changed(reveal=other.reveal, consistency=other.consistency))
    assert report.wrong.name == "reveal"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_changed_byte_of_the_file_gives_another_seed(data):
    raw = bytearray(HONEST.encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    try:
        epoch = EpochFile.parse(bytes(raw))
    except AttestError:
        return
    report = looked_at(epoch)
    assert report.seed in (None, SEED)
    assert report.complete == (epoch == HONEST) or report.wrong is None


def test_an_epoch_file_is_as_its_published_schema_says():
    schema = json.loads((SCHEMAS / "epoch-file-v1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(HONEST.encode()), schema)


def test_rehearsals_say_so():
    assert "REHEARSAL" in looked_at(HONEST).links[5].detail
    real = verify(HONEST, key=KEY, now=AFTER)
    assert real.wrong.name == "beacon", "the league of a rehearsal is not quicknet"
    assert PLAN.digest == CONTEXT.pool


@pytest.mark.parametrize(("name", "link"), [("mix_signature", "beacon"), ("open_signature", "timelock")])
def test_a_beacon_value_that_was_used_and_is_not_there_was_left_out(name, link):
    report = looked_at(changed(**{name: None}), now=LONG_AFTER)
    assert (link, "beacon_left_out") in [(found.name, found.code) for found in report.unproven]
    assert report.faults == ()
