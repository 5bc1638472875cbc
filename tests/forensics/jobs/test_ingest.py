from __future__ import annotations

import pytest

from benchmarks.service import field
from forensics.chain.grammar import Rules
from forensics.chain.recorded_subnet import RecordedSubnet
from forensics.chain.sync import Syncer
from forensics.entries.claimed import State
from forensics.entries.entries import Entries
from forensics.jobs.ingest import Ingest


def planned(number: int, *, repo: str | None = None) -> field.Planned:
    hotkey = field.hotkey(number)
    return field.Planned(
        hotkey, repo or f"miner{number}/model", f"{number:040x}", field.FIRST_BLOCK + number, 0, "original", None
    )


@pytest.fixture
def play(engine, tmp_path, clock):
    """Plays commitments, and gives back the subnet's entries."""

    def of(*plan: field.Planned, rules: str = "") -> list:
        chain = field.Chain(tmp_path / "chain.json", plan, seats=8)
        chain.show(len(plan))
        recorded = RecordedSubnet.parse((tmp_path / "chain.json").read_bytes())
        syncer = Syncer(engine, recorded, field.GENESIS, field.NETUID, clock)
        while True:
            list(syncer.until_current())
            if not recorded.advance():
                break
        entries = Entries(engine, clock=clock)
        ingest = Ingest(engine, entries, genesis=field.GENESIS, netuid=field.NETUID, rules=Rules.of(rules))
        assert ingest.run() == len(plan)
        assert ingest.run() == 0
        again = Ingest(engine, entries, genesis=field.GENESIS, netuid=field.NETUID, rules=Rules.of(rules))
        assert again.run() == 0  # as after a restart
        return entries.of(field.NETUID)

    return of


def test_every_commitment_becomes_one_entry_in_the_order_of_the_chain(play):
    found = play(planned(0), planned(1), planned(2))
    assert [e.claimed.hotkey for e in found] == [field.hotkey(n) for n in range(3)]
    assert {(e.state, e.source) for e in found} == {(State.FOUND, "chain")}


def test_a_commitment_of_somebody_who_left_is_known_too(play):
    assert play(planned(50))[0].state is State.FOUND


def test_a_commitment_that_names_no_model_is_refused_and_why(play):
    [entry] = play(planned(0, repo="no repository"))
    assert (entry.state, entry.code) == (State.REFUSED, "malformed_commitment")


def test_a_commitment_against_the_rules_is_refused_and_why(play):
    [entry] = play(planned(0), rules="json,hotkey_suffix")
    assert (entry.state, entry.code) == (State.REFUSED, "repo_name_without_hotkey")
