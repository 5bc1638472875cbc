"""The page on verdicts and the policy, run as printed against a home with four judged submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.policy.file import DEFAULT
from forensics.store.blobs import Blobs
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.docs.pages import ROOT, run_page
from tests.forensics.attesting import NETUID, Clock
from tests.forensics.verdicts.field import Field
from tests.forensics.verdicts.test_judge import finding

PAGE = ROOT / "docs" / "policy.md"


@pytest.fixture
def desk(tmp_path, environment) -> Path:
    home = Path(environment["FORENSICS_HOME"])
    engine = connect(f"sqlite:///{home / 'forensics.db'}")
    ensure(engine)
    field = Field(engine, Blobs((home / "blobs").as_uri()), tmp_path / "cache", clock=Clock())
    merge = finding("lineage.merged", 1.0)
    found = {"merger": merge, "sure": finding("copy.perturbed", 1e-9), "unsure": finding("copy.perturbed", 1e-5)}
    for block, (name, one) in enumerate(found.items()):
        entry = field.commit(name, block=block, state="judging")
        field.verdicts.record_findings(entry, [one])
        field.verdicts.judge(entry)
    field.verdicts.judge(field.commit("parked", block=9, state="parked", reason="gated: no access"))
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "default.toml").write_bytes(DEFAULT.read_bytes())
    (desk / "snapshot.json").write_bytes(field.publisher().publish(NETUID, 8512345, field.seats()).envelope)
    (desk / "service.vkey").write_text(f"{field.log.key}\n")
    engine.dispose()
    return desk


@pytest.mark.timeout(280)
def test_every_command_of_the_page_prints_what_the_page_says(desk, environment):
    run_page(PAGE, desk, environment, seconds=270)
