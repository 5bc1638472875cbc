"""The service's drills, small: every process is real, and so is every kill."""

from __future__ import annotations

import json

import pytest

from benchmarks.service import field
from benchmarks.service.kills import kill_and_check
from benchmarks.service.latency import burst
from forensics.chain.recorded_subnet import RecordedSubnet

MINERS = 12


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    field.make(folder, MINERS)
    return folder


@pytest.mark.slow
def test_a_field_is_made_once_and_its_copies_are_of_its_originals(hub):
    plan = field.make(hub, MINERS)
    assert plan == field.make(hub, MINERS)
    owners = {p.hotkey for p in plan if p.of is None}
    assert {p.of for p in plan if p.of} <= owners
    assert all((hub / p.repo / p.revision / "model.safetensors").is_file() for p in plan)


def test_a_chain_never_forgets_a_block_it_showed(tmp_path):
    plan = [
        field.Planned(field.hotkey(n), f"m{n}/model", f"{n:040x}", field.FIRST_BLOCK + n, 0, "original", None)
        for n in range(4)
    ]
    chain = field.Chain(tmp_path / "chain.json", plan, seats=4)
    for count in (2, 2, 3, 4):
        chain.show(count)
    recorded = RecordedSubnet.parse((tmp_path / "chain.json").read_bytes())
    seen = [recorded.finalized()]
    while recorded.advance():
        seen.append(recorded.finalized())
    assert seen == [field.FIRST_BLOCK + n for n in (-1, 1, 2, 3)]
    commits = recorded.state(field.NETUID, seen[-1]).commits
    assert [json.loads(c.data)["model"] for c in commits] == [p.repo for p in plan]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_is_killed_on_sqlite_nothing_is_lost_or_judged_twice(tmp_path, hub):
    found = kill_and_check(tmp_path, hub=hub, count=MINERS, kills=5)
    assert (found["judged"], found["lost"], found["judged_twice"], found["sequence_gaps"]) == (MINERS, 0, 0, 0)
    assert found["kills"] == 5


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_whatever_is_killed_on_postgresql_nothing_is_lost_or_judged_twice(tmp_path, hub, postgres_url):
    found = kill_and_check(tmp_path, hub=hub, count=MINERS, kills=5, database=postgres_url, workers=3)
    assert (found["judged"], found["lost"], found["judged_twice"], found["sequence_gaps"]) == (MINERS, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_three_workers_on_postgresql_judge_a_subnet_that_commits_at_once(tmp_path, hub, postgres_url):
    found = burst(tmp_path, hub=hub, count=MINERS, database=postgres_url, workers=3)
    assert (found["judged"], found["originals_blamed"], found["judged_twice"]) == (MINERS, 0, 0)
