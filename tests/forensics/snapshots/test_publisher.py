"""Publishing on both databases: numbers without gaps, bytes that never change, in the log before they are served."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
from sqlalchemy import text

from attest import envelope as dsse
from attest.errors import MalformedInput
from attest.log import Log, verify_receipt
from attest.predicates.verdict import MAX_VERDICTS, Status
from forensics.log_store import DatabaseLog
from forensics.policy import default
from forensics.snapshots import Publisher, Shelf
from tests.forensics.attesting import GENESIS, NETUID
from tests.forensics.verdicts.field import ORIGIN, SIGNER, Field, Seat, hotkey

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "verdict-v1.schema.json"


def publish(field: Field, *names: str, block: int = 100):
    return field.publisher().publish(NETUID, block, field.seats(*names))


def test_everybody_registered_is_in_it_once(field):
    stored = publish(field, *(f"miner {n}" for n in range(256)))
    verdicts = stored.verdicts().verdicts
    assert [verdict.uid for verdict in verdicts] == list(range(256))
    assert {v.status for v in verdicts} == {Status.UNKNOWN}
    assert {v.multiplier for v in verdicts} == {"1.0"}
    assert {v.reasons[0].code for v in verdicts} == {"no_commitment"}


def test_a_uid_or_hotkey_that_comes_twice_is_refused_and_nothing_is_published(field):
    for seats in ((Seat(1, hotkey("a")), Seat(1, hotkey("b"))), (Seat(1, hotkey("a")), Seat(2, hotkey("a")))):
        with pytest.raises(MalformedInput, match="registered twice"):
            field.publisher().publish(NETUID, 1, seats)
    assert field.shelf.newest(NETUID) is None


def test_unchanged_it_is_the_same_until_it_is_about_to_expire(field):
    first = publish(field, "a", "b")
    field.clock.forward(60)
    assert publish(field, "a", "b", block=105) == first
    field.clock.forward(default().snapshots.expires - default().snapshots.renew - 60)
    renewed = publish(field, "a", "b", block=400)
    assert (renewed.sequence, renewed.block, renewed.content) == (2, 400, first.content)
    assert renewed.expires_at - first.expires_at == timedelta(seconds=5400)


def test_a_change_is_published_under_the_next_number(field):
    assert publish(field, "a").sequence == 1
    assert publish(field, "a", "b").sequence == 2
    field.verdicts.judge(field.commit("a", block=7, state="parked", reason="gated: no access"))
    third = publish(field, "a", "b")
    assert third.sequence == 3
    assert [v.reasons[0].code for v in third.verdicts().verdicts] == ["gated", "no_commitment"]
    assert [field.shelf.find(NETUID, n).sequence for n in (1, 2, 3)] == [1, 2, 3]
    assert field.shelf.find(NETUID, 4) is None


def test_another_policy_is_a_change(field):
    first = publish(field, "a")
    field.verdicts = field.judging(replace(default(), version=2))
    second = publish(field, "a")
    assert second.sequence == 2
    assert second.verdicts().policy.version == 2 != first.verdicts().policy.version


def test_subnets_count_by_themselves(field):
    assert publish(field, "a").sequence == 1
    assert field.publisher().publish(NETUID + 1, 1, field.seats("a")).sequence == 1
    assert publish(field, "a", "b").sequence == 2
    assert field.shelf.newest_sequence(NETUID) == 2
    assert field.shelf.newest_sequence(NETUID + 1) == 1
    assert field.shelf.newest_sequence(9) is None


def test_a_publisher_that_lags_behind_publishes_nothing_older(field):
    newer = publish(field, "a", "b", block=200)
    assert publish(field, "a", block=150) == newer
    assert field.shelf.newest(NETUID) == newer


def test_the_bytes_served_are_those_signed_and_have_a_strong_tag(field):
    stored = publish(field, "a")
    served = field.shelf.newest(NETUID)
    assert served.envelope == stored.envelope
    assert served.etag == stored.etag
    assert served.etag.startswith('"')
    assert publish(field, "a", "b").etag != stored.etag
    assert dsse.read(served.envelope).digest == stored.digest


def test_one_verdict_out_of_the_newest(field):
    stored = publish(field, "a", "b")
    found, within = field.shelf.verdict(NETUID, hotkey("b"))
    assert (found.uid, within) == (1, stored)
    assert field.shelf.verdict(NETUID, hotkey("nobody")) is None
    assert field.shelf.verdict(9, hotkey("a")) is None


def test_real_output_keeps_to_the_published_schema(field):
    field.verdicts.judge(field.commit("a", block=7, state="parked", reason="gated: no access"))
    payload = json.loads(dsse.read(publish(field, "a", "b").envelope).payload)
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    validator.validate(payload)
    payload["predicate"]["verdicts"][0]["multiplier"] = 1.0
    assert list(validator.iter_errors(payload))


def test_what_a_kill_left_out_of_the_log_is_not_served_and_is_brought_in_by_the_next(field, monkeypatch):
    publish(field, "a")
    monkeypatch.setattr(Publisher, "flush", lambda self: 0)
    publish(field, "a", "b")
    monkeypatch.undo()
    assert field.shelf.newest(NETUID).sequence == 1
    later = publish(field, "a", "b")
    assert (later.sequence, later.leaf is not None) == (2, True)
    assert field.shelf.newest(NETUID) == later


def test_a_kill_between_log_and_row_leaves_one_leaf(field, monkeypatch):
    """The leaf is in the log, but the row does not know: the same bytes are appended again, and get the same place."""
    publish(field, "a")
    append = Log.append

    def killed(self, bodies):
        append(self, bodies)
        raise KeyboardInterrupt

    monkeypatch.setattr(Log, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(field, "a", "b")
    monkeypatch.undo()
    size = field.log.size()
    stored = publish(field, "a", "b")
    assert stored.leaf == size - 1
    assert field.log.size() == size


def test_receipts_prove_every_snapshot(field):
    stored = [publish(field, *"abcdef"[: n + 1]) for n in range(5)]
    for one in stored:
        proven = verify_receipt(field.shelf.receipt(one), log=field.log.key)
        assert proven.index == one.leaf
    assert Shelf(field.engine, GENESIS).receipt(stored[0]) is None
    log = Log(DatabaseLog(field.engine), SIGNER, origin=ORIGIN)
    assert log.size() == 5


def test_a_full_subnet_fits(field):
    """As many verdicts as a snapshot can hold, each with reasons: within what an envelope may be."""
    stored = publish(field, *(f"m{n}" for n in range(1024)))
    assert len(stored.verdicts().verdicts) == 1024 < MAX_VERDICTS
    assert len(stored.envelope) < 1 << 20


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE snapshot SET sequence = 9",
        "UPDATE snapshot SET leaf = 3",
        "UPDATE snapshot SET leaf = NULL",
        "DELETE FROM snapshot",
        "UPDATE verdict SET status = 'clear'",
        "DELETE FROM verdict",
        "UPDATE finding SET code = 'copy.none'",
        "DELETE FROM finding",
        "UPDATE examination SET number = 5",
        "DELETE FROM examination",
    ],
)
def test_the_database_itself_refuses_to_change_what_was_said(field, statement):
    field.verdicts.judge(field.commit("a", block=7, state="refused", reason="invalid_commitment: names no repository"))
    publish(field, "a")
    with pytest.raises(Exception, match="append-only"), field.engine.begin() as connection:
        connection.execute(text(statement))


@pytest.mark.parametrize("table", ["snapshot", "verdict", "finding", "examination"])
def test_the_database_itself_refuses_replacement(field, table):
    field.verdicts.judge(field.commit("a", block=7, state="refused", reason="invalid_commitment: names no repository"))
    publish(field, "a")
    sqlite = field.engine.dialect.name == "sqlite"
    statement = f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}" if sqlite else f"TRUNCATE {table}"  # noqa: S608
    with pytest.raises(Exception, match="append-only"), field.engine.begin() as connection:
        connection.execute(text(statement))
