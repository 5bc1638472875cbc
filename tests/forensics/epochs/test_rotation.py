from __future__ import annotations

import dataclasses
import secrets
from hashlib import sha256

import pytest
from sqlalchemy import text

from attest.predicates.seeds import Step
from attest.seeds import seal
from attest.seeds.beacon import QUICKNET
from attest.seeds.errors import SealInvalid
from attest.seeds.plan import Environment, Plan
from attest.seeds.verify import ANCHOR_MARGIN, verify
from forensics.epochs.access import Access
from forensics.epochs.committing import Schedule, commit
from forensics.epochs.errors import ChainSilent, EpochConflict, EpochHidden, EpochUnknown, NotInRoster
from forensics.epochs.machine import LATE, MISSED, UNANCHORED, State
from forensics.epochs.public import epoch_file
from forensics.epochs.rotation import Rotation
from forensics.epochs.shelf import Shelf
from forensics.epochs.statements import COMMITMENT, REVEAL
from forensics.errors import UsageError

from .simulated import CONTEST, GENERATOR, MINER, PLAN, SEAL_KEY, START, VALIDATORS, round_in, service, world_of

MIX_IN, EVERY, WINDOW = 1200, 100, 50
SCHEDULE = Schedule(round_in(MIX_IN), EVERY, WINDOW)
MIX_AT = QUICKNET.time_of(SCHEDULE.mix)
OPEN_AT = MIX_AT + 3 * WINDOW


def committed(rotation, count=1, **changes):
    parts = {"plan": PLAN, "generator": GENERATOR, "schedule": SCHEDULE, "count": count} | changes
    return commit(rotation.shelf, rotation.world, rotation.chain.moment(), **parts)


def at(rotation, chain, time):
    """State of epoch 0 after everything that can be done at a time."""
    chain.time = time
    rotation.advance()
    return rotation.shelf.epoch(0).state


def reported(rotation, chain, number=0):
    file = epoch_file(rotation.shelf, number)
    return verify(file, key=rotation.shelf.log.key, now=chain.time, network=rotation.world.network)


def test_a_whole_life(rotation, chain):
    committed(rotation, 2)
    assert rotation.shelf.epoch(0).state is State.COMMITTED
    assert at(rotation, chain, START) is State.ANCHORED
    assert at(rotation, chain, MIX_AT - 1) is State.ANCHORED
    assert at(rotation, chain, MIX_AT + 12) is State.OPEN
    assert at(rotation, chain, OPEN_AT - 1) is State.OPEN
    assert at(rotation, chain, OPEN_AT) is State.REVEALED
    said = rotation.shelf.statements(rotation.shelf.epoch(0))
    assert list(said) == [COMMITMENT, *map(str, (Step.ANCHORED, Step.MIXING, Step.OPEN, Step.CLOSED)), REVEAL]
    assert all(row.leaf is not None for row in said.values())
    assert reported(rotation, chain).complete
    assert rotation.shelf.epoch(1).state is State.ANCHORED


def test_doing_it_again_changes_nothing(rotation, chain):
    committed(rotation, 2)
    for time in (START, MIX_AT + 12, OPEN_AT, OPEN_AT + 3):
        at(rotation, chain, time)
        size = rotation.shelf.log.size()
        before = rotation.shelf.epochs()
        assert rotation.advance() == []
        assert (rotation.shelf.log.size(), rotation.shelf.epochs()) == (size, before)


def test_one_anchor_holds_all_epochs_of_a_batch(rotation, chain):
    committed(rotation, 5)
    rotation.advance()
    assert len(chain.read("anchors", [])) == 1
    assert len({epoch.stamp for epoch in rotation.shelf.epochs()}) == 1


def test_an_anchor_made_before_a_crash_is_found_again(rotation, chain):
    committed(rotation)
    rotation.shelf.flush()
    rotation.shelf.take_receipts()
    chain.anchor(rotation.shelf.anchored_digest(rotation.shelf.epoch(0)))
    rotation.advance()
    assert len(chain.read("anchors", [])) == 1
    assert rotation.shelf.epoch(0).state is State.ANCHORED


def test_a_statement_left_in_the_outbox_is_logged_as_it_was_signed(rotation, chain):
    committed(rotation)
    envelope = rotation.shelf.statements(rotation.shelf.epoch(0))[COMMITMENT].envelope
    rotation.shelf.log.append([envelope])  # the process died before it could note the leaf
    rotation.advance()
    assert rotation.shelf.log.leaf(0) == envelope
    assert rotation.shelf.statements(rotation.shelf.epoch(0))[COMMITMENT].leaf == 0


def test_a_late_beacon_makes_the_epoch_wait(rotation, chain):
    committed(rotation)
    at(rotation, chain, START)
    chain.write("late", [SCHEDULE.mix])
    assert at(rotation, chain, MIX_AT + 60) is State.MIXING
    happened = rotation.advance()
    assert "not out yet" in happened[0].note
    with pytest.raises(EpochHidden):
        Access(rotation.shelf, rotation.world.seal_key, rotation.world.clock).fetch(0, VALIDATORS[0])
    chain.write("late", [])
    assert at(rotation, chain, MIX_AT + 90) is State.OPEN


def test_a_lying_beacon_is_not_believed(rotation, chain):
    committed(rotation)
    at(rotation, chain, START)
    chain.write("lies", [SCHEDULE.mix, SCHEDULE.mix + WINDOW])
    assert at(rotation, chain, MIX_AT + 60) is State.MIXING
    assert "not signed by the beacon" in rotation.advance()[0].note
    chain.write("lies", [SCHEDULE.mix + WINDOW])
    assert at(rotation, chain, MIX_AT + 90) is State.OPEN
    assert at(rotation, chain, OPEN_AT + 90) is State.OPEN
    chain.write("lies", [])
    assert at(rotation, chain, OPEN_AT + 100) is State.REVEALED
    assert reported(rotation, chain).complete


def test_a_beacon_that_is_late_past_the_window_voids_the_epoch(rotation, chain):
    committed(rotation)
    at(rotation, chain, START)
    chain.write("late", [SCHEDULE.mix])
    at(rotation, chain, OPEN_AT + 10)
    chain.write("late", [])
    assert at(rotation, chain, OPEN_AT + 20) is State.VOID
    assert rotation.shelf.epoch(0).void_reason == MISSED
    assert reported(rotation, chain).void == MISSED
    assert reported(rotation, chain).wrong is None


@pytest.mark.parametrize("skew", [-(10**7), 10**7])
@pytest.mark.parametrize("name", ["skew", "chain_skew"])
def test_clocks_that_jump_open_and_reveal_nothing_early(rotation, chain, name, skew):
    committed(rotation)
    at(rotation, chain, START)
    chain.write(name, skew)
    assert at(rotation, chain, MIX_AT - 1) in (State.ANCHORED, State.MIXING)
    chain.write(name, 0)
    assert at(rotation, chain, MIX_AT + 12) is State.OPEN
    chain.write(name, skew)
    assert at(rotation, chain, OPEN_AT - 1) is State.OPEN
    assert at(rotation, chain, OPEN_AT + 12) is State.REVEALED
    chain.write(name, 0)
    assert reported(rotation, chain).complete


def test_a_silent_chain_makes_everything_wait(rotation, chain):
    committed(rotation)
    chain.write("silent", True)
    happened = rotation.advance()
    assert "no node answers" in happened[0].note
    chain.write("silent", False)
    assert at(rotation, chain, START + 12) is State.ANCHORED


def test_a_commitment_nobody_anchored_in_time_is_void(rotation, chain):
    committed(rotation)
    assert at(rotation, chain, MIX_AT - ANCHOR_MARGIN + 12) is State.COMMITTED
    assert chain.read("anchors", []) == []
    assert at(rotation, chain, MIX_AT + 12) is State.VOID
    assert rotation.shelf.epoch(0).void_reason == UNANCHORED
    assert reported(rotation, chain).wrong.code == "unanchored"


def test_a_commitment_anchored_too_late_is_void_and_the_file_proves_it(rotation, chain):
    committed(rotation)
    assert at(rotation, chain, MIX_AT - ANCHOR_MARGIN - 1) is State.VOID
    assert rotation.shelf.epoch(0).void_reason == LATE
    assert reported(rotation, chain).wrong.code == "late_commitment"


def test_two_workers_on_one_database_make_one_history(rotation, chain):
    committed(rotation, 3)
    other = Rotation(Shelf(rotation.shelf.engine, rotation.shelf.log, CONTEST), world_of(chain), chain)
    stale = rotation.shelf.epoch(0)
    for time in (START, MIX_AT + 12, OPEN_AT + 12):
        chain.time = time
        other.advance()
        rotation._move(stale, chain.moment())
    kinds = list(rotation.shelf.statements(stale))
    assert len(kinds) == len(set(kinds)) == 6


def test_a_lost_sealing_key_does_not_keep_the_secret_from_being_revealed(rotation, chain):
    committed(rotation)
    for time in (START, MIX_AT + 12):
        at(rotation, chain, time)
    forgetful = Rotation(rotation.shelf, world_of(chain, seal_key=lambda: bytes(32)), chain)
    assert at(forgetful, chain, OPEN_AT + 12) is State.REVEALED
    assert reported(rotation, chain).complete


def test_an_epoch_that_cannot_be_unsealed_holds_up_nobody_else(rotation, chain):
    committed(rotation, 2)
    at(rotation, chain, START)
    with rotation.shelf.engine.begin() as connection:
        connection.execute(
            text("UPDATE epoch SET sealed = (SELECT sealed FROM epoch WHERE number = 1) WHERE number = 0")
        )
    chain.time = MIX_AT + 12
    assert any("does not open" in happened.note for happened in rotation.advance())
    assert rotation.shelf.epoch(0).state is State.MIXING
    assert at(rotation, chain, MIX_AT + 3 * EVERY + 12) is State.VOID
    assert rotation.shelf.epoch(1).state is State.OPEN


# Committing


def test_a_commitment_is_never_replaced(rotation, chain):
    first = committed(rotation, 2, first=0)
    assert committed(rotation, 2, first=0) == first
    for changes in ({"count": 3}, {"generator": "sha256:" + "0" * 64}, {"schedule": Schedule(SCHEDULE.mix, 99, 50)}):
        with pytest.raises(EpochConflict):
            committed(rotation, **({"count": 2, "first": 0} | changes))
    assert rotation.shelf.epochs() == first


def test_numbers_and_rounds_go_up(rotation, chain):
    committed(rotation, 2)
    for changes in ({"first": 5}, {"first": 2}, {"schedule": Schedule(SCHEDULE.mix + EVERY, 1, 1)}):
        with pytest.raises(EpochConflict):
            committed(rotation, **changes)
    later = Schedule(SCHEDULE.mix + 2 * EVERY, EVERY, WINDOW)
    assert [e.number for e in committed(rotation, 2, schedule=later)] == [2, 3]


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": Schedule(round_in(300), 10, 10)},
        {"schedule": Schedule(1, 10, 10)},
        {"schedule": Schedule(SCHEDULE.mix, 0, 10)},
        {"schedule": Schedule(SCHEDULE.mix, 10, 0)},
        {"count": 0},
        {"count": 5000},
    ],
)
def test_schedules_that_cannot_be_kept_are_refused(rotation, chain, changes):
    with pytest.raises(UsageError):
        committed(rotation, **changes)


def test_the_same_first_round_is_the_same_call(rotation, chain):
    epochs = committed(rotation, 3)
    assert committed(rotation, 3) == epochs
    with pytest.raises(EpochConflict):
        committed(rotation, 3, plan=Plan.of(Environment("sat", 7, 2)))
    assert rotation.shelf.epochs() == epochs


def overtaken(rotation, chain, changes):
    """A world in which somebody else commits while the first secret is drawn here."""
    others = []

    def entropy(size):
        if not others:
            others.append(None)
            url = rotation.shelf.engine.url.render_as_string(hide_password=False)
            other = service(url, chain)
            others[0] = committed(other, 2, **changes)
            other.shelf.engine.dispose()
        return secrets.token_bytes(size)

    slow = Rotation(rotation.shelf, world_of(chain, entropy=entropy), chain)
    return slow, others


def test_of_two_who_commit_the_same_at_once_the_later_gets_what_the_first_made(rotation, chain):
    slow, others = overtaken(rotation, chain, {})
    assert committed(slow, 2) == others[0] == rotation.shelf.epochs()


def test_of_two_who_commit_different_things_at_once_the_later_is_refused(rotation, chain):
    slow, others = overtaken(rotation, chain, {"schedule": Schedule(SCHEDULE.mix + 1, EVERY, WINDOW)})
    with pytest.raises(EpochConflict, match="never replaced"):
        committed(slow, 2)
    assert rotation.shelf.epochs() == others[0]


def test_a_key_that_opens_nothing_is_refused_before_anything_is_done(rotation, chain):
    committed(rotation, 2)
    wrong = Rotation(rotation.shelf, world_of(chain, seal_key=lambda: bytes(32)), chain)
    before = rotation.shelf.epochs()
    with pytest.raises(SealInvalid, match="opens none"):
        wrong.check_key()
    assert rotation.shelf.epochs() == before
    rotation.check_key()
    for time in (START, MIX_AT + 12, OPEN_AT + 12, MIX_AT + 3 * EVERY + 12, OPEN_AT + 3 * EVERY + 12):
        at(rotation, chain, time)
    wrong.check_key()  # no secret is needed any more


def test_every_epoch_has_its_own_secret_sealed_and_nothing_in_clear(rotation, chain):
    epochs = committed(rotation, 4)
    secrets = {seal.unseal(e.sealed, e.context, key=SEAL_KEY) for e in epochs}
    assert len(secrets) == 4
    with rotation.shelf.engine.connect() as connection:
        everything = b"".join(
            repr(tuple(bytes(v) if isinstance(v, memoryview) else v for v in row)).encode()
            for table in ("epoch", "epoch_statement", "log_leaf")
            for row in connection.execute(text(f"SELECT * FROM {table}"))  # noqa: S608
        )
    for secret in secrets:
        assert secret.hex().encode() not in everything
        assert repr(secret)[2:-1].encode() not in everything


# Access


def opened(rotation, chain):
    committed(rotation)
    at(rotation, chain, START)
    assert at(rotation, chain, MIX_AT + 12) is State.OPEN
    return Access(rotation.shelf, rotation.world.seal_key, rotation.world.clock)


def test_validators_get_theirs_and_it_is_on_record(rotation, chain):
    access = opened(rotation, chain)
    first, second = access.fetch(0, VALIDATORS[0]), access.fetch(0, VALIDATORS[1])
    common = {item.id for item in first.items} & {item.id for item in second.items}
    assert len(common) == 10
    assert len(first.items) == len(second.items) == 13
    assert access.fetch(0, VALIDATORS[0]) == first
    at(rotation, chain, OPEN_AT + 12)
    report = reported(rotation, chain)
    assert report.complete
    from forensics.epochs import fetches

    record = fetches.of(rotation.shelf.engine, 1)
    assert [fetch.hotkey for fetch in record] == [VALIDATORS[0], VALIDATORS[1], VALIDATORS[0]]
    assert all(fetch.items == 13 for fetch in record)


def test_what_a_validator_gets_shows_neither_numbers_nor_the_seed(rotation, chain):
    document = opened(rotation, chain).fetch(0, VALIDATORS[0]).document()
    assert {key for item in document["items"] for key in item} == {"environment", "id", "key"}
    assert set(document) == {"schema", "epoch", "hotkey", "items"}


def test_nobody_else_gets_anything(rotation, chain):
    access = opened(rotation, chain)
    with pytest.raises(NotInRoster):
        access.fetch(0, MINER)
    with pytest.raises(EpochUnknown):
        access.fetch(1, VALIDATORS[0])
    with pytest.raises(EpochHidden):
        access.revealed(0)


@pytest.mark.parametrize("time", [START, MIX_AT - 12, OPEN_AT + 12])
def test_nothing_is_handed_out_before_and_after_the_window(rotation, chain, time):
    committed(rotation)
    at(rotation, chain, START)
    if time > MIX_AT:
        at(rotation, chain, MIX_AT + 12)
    at(rotation, chain, time)
    with pytest.raises(EpochHidden):
        Access(rotation.shelf, rotation.world.seal_key, rotation.world.clock).fetch(0, VALIDATORS[0])


def test_after_the_reveal_everyone_gets_everything(rotation, chain):
    access = opened(rotation, chain)
    handed = access.fetch(0, VALIDATORS[2])
    at(rotation, chain, OPEN_AT + 12)
    revealed = access.revealed(0)
    ids = {item["id"]: item["validator"] for item in revealed.document()["items"]}
    assert {item.id for item in handed.items} <= set(ids)
    assert {ids[item.id] for item in handed.items} == {None, VALIDATORS[2]}
    assert revealed.seed == reported(rotation, chain).seed


def test_the_record_of_hand_overs_is_bound_when_the_epoch_closes(rotation, chain):
    access = opened(rotation, chain)
    access.fetch(0, VALIDATORS[0])
    at(rotation, chain, OPEN_AT + 12)
    from attest import envelope
    from attest.statement import parse
    from forensics.epochs import fetches
    from forensics.store.engine import reading

    said = rotation.shelf.statements(rotation.shelf.epoch(0))[str(Step.CLOSED)]
    evidence = parse(envelope.read(said.envelope).payload).predicate.evidence
    with reading(rotation.shelf.engine) as session:
        assert fetches.digest(session, 1) == evidence
    assert evidence != "sha256:" + sha256(b"[]").hexdigest()


def test_a_chain_that_does_not_say_who_validates_makes_the_epoch_wait(rotation, chain, monkeypatch):
    committed(rotation)
    at(rotation, chain, START)

    def silent(netuid, block):
        raise ChainSilent("no node answers", where="metagraph")

    monkeypatch.setattr(chain, "validators", silent)
    assert at(rotation, chain, MIX_AT + 12) is State.MIXING
    monkeypatch.undo()
    assert at(rotation, chain, MIX_AT + 24) is State.OPEN
    assert rotation.shelf.epoch(0).roster == tuple(sorted(VALIDATORS))
    assert dataclasses.is_dataclass(rotation.world)
