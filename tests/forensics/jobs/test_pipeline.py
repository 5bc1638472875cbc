from __future__ import annotations

import pytest

from forensics.entries.claimed import State
from forensics.jobs.feeding import LOST
from forensics.jobs.retries import DELAYS, OURS, WORKER_DEATHS
from forensics.jobs.sandbox import Limits, Sandbox
from tests.forensics import models
from tests.forensics.jobs.workshop import GENESIS, NETUID, Workshop, workshop


@pytest.fixture
def shop(engine, tmp_path, clock) -> Workshop:
    return workshop(engine, tmp_path, clock)


def test_a_commitment_becomes_a_verdict_and_its_copy_is_told_from_it(shop):
    shop.upload("ada/model", models.decoder(1))
    shop.upload("eve/model", models.noisy(models.decoder(1), 0.01))
    shop.commit("eve", 20)
    shop.commit("ada", 10)
    shop.work()
    assert [(h, s) for h, s, _ in shop.court.judged] == [("ada", State.JUDGING), ("eve", State.JUDGING)]
    [(relation, counts)] = shop.court.relation("eve").values()
    assert (relation, counts) == ("perturbed", True)
    assert not any(counts for _, counts in shop.court.relation("ada").values())
    assert {e.state for e in shop.entries.of(NETUID)} == {State.JUDGED}
    assert shop.wishes == [(GENESIS, NETUID)] * 2


def test_what_the_hub_does_not_show_yet_is_tried_again_and_nobody_is_blamed(shop, clock):
    shop.hub.answers["ada/model"] = ["not_found", "unavailable"]
    shop.upload("ada/model", models.decoder(1))
    shop.commit("ada", 10)
    shop.work()
    [entry] = shop.entries.of(NETUID)
    assert (entry.state, entry.code, entry.attempts) == (State.WAITING, "not_found", 1)
    clock.forward(DELAYS[0].total_seconds())
    shop.work()
    clock.forward(DELAYS[1].total_seconds())
    shop.work()
    assert [e.state for e in shop.entries.of(NETUID)] == [State.JUDGED]


def test_what_never_comes_is_parked_and_said_so(shop, clock):
    shop.hub.answers["ada/model"] = ["gated"] * 20
    shop.commit("ada", 10)
    for _ in range(20):
        shop.work()
        clock.forward(2 * DELAYS[-1].total_seconds())
    assert shop.court.judged == [("ada", State.PARKED, "gated")]
    assert len(shop.hub.fetched) == len(DELAYS) + 1


@pytest.mark.parametrize("code", ["too_large", "refused"])
def test_what_no_waiting_can_change_is_parked_at_once(shop, code):
    shop.hub.answers["ada/model"] = [code]
    shop.commit("ada", 10)
    shop.work()
    assert shop.court.judged == [("ada", State.PARKED, code)]


def test_a_full_disk_is_not_the_miners_fault(shop, clock):
    shop.hub.answers["ada/model"] = ["disk_full"] * 30
    shop.commit("ada", 10)
    for _ in range(30):
        shop.work()
        clock.forward(OURS.total_seconds())
    assert [(e.state, e.attempts) for e in shop.entries.of(NETUID)] == [(State.WAITING, 0)]


def test_a_damaged_checkpoint_is_unknown_with_the_reason(shop):
    shop.upload("ada/model", models.decoder(1))
    (shop.hub.root / "ada/model" / ("a" * 40) / "model.safetensors").write_bytes(b"\xff" * 64)
    shop.commit("ada", 10)
    shop.work()
    [(_, state, code)] = shop.court.judged
    assert state is State.PARKED
    assert code in ("malformed_checkpoint", "checkpoint_too_large")


def test_a_checkpoint_that_kills_its_reader_is_parked_in_the_end(engine, tmp_path, clock):
    shop = workshop(engine, tmp_path, clock, limits=Limits(seconds=0.001))
    shop.upload("ada/model", models.decoder(1))
    shop.commit("ada", 10)
    for _ in range(5):
        shop.work()
        clock.forward(DELAYS[-1].total_seconds())
    assert shop.court.judged == [("ada", State.PARKED, "reader_died")]


def test_a_step_at_which_workers_keep_dying_is_parked(shop):
    shop.upload("ada/model", models.decoder(1))
    entry = shop.commit("ada", 10)
    shop.entries.handed_out(entry)
    for _ in range(WORKER_DEATHS):  # each began to fetch, and was never heard of again
        assert shop.entries.begin(entry.id, 1, State.FETCHING, among=[State.FOUND])
    assert shop.pipeline.fetch(entry.id, 1)["go"] is False
    shop.work()
    assert shop.court.judged == [("ada", State.PARKED, "worker_died")]


def test_the_same_bytes_are_fingerprinted_once_whoever_submits_them(shop, monkeypatch):
    shop.upload("ada/model", models.decoder(1))
    shop.upload("eve/model", models.decoder(1))
    shop.commit("ada", 10)
    shop.commit("eve", 20)
    called = []
    run = Sandbox.run
    monkeypatch.setattr(Sandbox, "run", lambda self, f, **kw: called.append(f.__name__) or run(self, f, **kw))
    shop.work()
    assert called.count("fingerprint") == 1
    assert shop.court.relation("eve") == {e.content_root: ("identical", True) for e in shop.entries.of(NETUID)}


def test_an_original_that_comes_late_has_its_copy_judged_again(shop, clock):
    shop.hub.answers["ada/model"] = ["not_found"]
    shop.upload("ada/model", models.decoder(1))
    shop.upload("eve/model", models.noisy(models.decoder(1), 0.01))
    shop.upload("sam/model", models.decoder(5))
    shop.commit("ada", 10)
    shop.commit("eve", 20)
    shop.commit("sam", 30)
    shop.work()
    assert [h for h, _, _ in shop.court.judged] == ["eve", "sam"]
    assert not any(counts for _, counts in shop.court.relation("eve").values())
    clock.forward(DELAYS[0].total_seconds())
    shop.work()
    assert [h for h, _, _ in shop.court.judged][2:4] == ["ada", "eve"]
    assert ("perturbed", True) in shop.court.relation("eve").values()


def test_every_step_may_be_repeated_after_its_own_end(shop):
    shop.upload("ada/model", models.decoder(1))
    entry = shop.commit("ada", 10)
    shop.entries.handed_out(entry)
    for step in (shop.pipeline.fetch, shop.pipeline.fetch, shop.pipeline.fingerprint):
        assert step(entry.id, 1)["go"]
    assert not shop.pipeline.fingerprint(entry.id, 1)["go"]  # the turn is over
    steps = (shop.pipeline.identify, shop.pipeline.detect, shop.pipeline.judge, shop.pipeline.publish)
    for step in (step for step in steps for _ in range(2)):
        assert step(entry.id, 2)["go"]
    assert [s for _, s, _ in shop.court.judged] == [State.JUDGING]


def test_work_that_the_queue_lost_is_handed_out_again(shop, clock):
    shop.upload("ada/model", models.decoder(1))
    shop.commit("ada", 10)
    assert shop.feeder.feed() == 1
    shop.jobs.stop()  # the queue's file was lost
    assert shop.feeder.feed() == 0
    clock.forward(LOST.total_seconds() + 1)
    assert shop.feeder.mend() == 1
    shop.work()
    assert [e.state for e in shop.entries.of(NETUID)] == [State.JUDGED]
