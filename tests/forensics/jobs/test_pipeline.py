from __future__ import annotations

import pytest

from forensics.entries.claimed import State
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
