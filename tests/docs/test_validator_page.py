"""The validator's page, run as printed against a service that listens on loopback."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from attest import envelope as dsse
from attest.predicates.verdict import LogRef, Status
from forensics.keys import Keys
from forensics.place import GENESIS
from forensics.scoring.field import Items, means_of
from forensics.settings import load
from forensics.store.engine import writing
from forensics.store.verdicts import SnapshotRow
from tests.docs.pages import ROOT, run_page
from tests.forensics.client import test_drill
from tests.forensics.client.world import LIFE, NETUID, address, revision, verdict, verdicts
from tests.forensics.scoring.fields import bernoulli, rows, write
from tests.forensics.scoring.test_affine import entry, response
from tests.forensics.serving import served

PAGE = ROOT / "docs" / "for-validators.md"
MINERS = ("alice", "copycat", "bob", "special")
ENVIRONMENTS = ("CODE", "MATH", "PLAN", "WEB")


@pytest.fixture
def service(tmp_path):
    """A service that published one snapshot: a copy is rejected, one model is penalised."""
    settings = load(home=tmp_path / "service", genesis=GENESIS["finney"])
    with served(settings) as (services, url):
        key = Keys.of(settings).service()
        root = base64.b64encode(bytes(32)).decode()
        said = verdicts(
            verdict(0, "alice"),
            verdict(1, "copycat", "0", status=Status.REJECTED),
            verdict(2, "bob", "0.25"),
            verdict(3, "special"),
            at=datetime.now(UTC),
            by=key,
            log=LogRef(origin=services.log_key.name, size=10, root=root),
        )
        envelope = dsse.sign(said.payload(), [key])
        issued = datetime.now(UTC)
        with writing(services.engine) as session:
            session.add(
                SnapshotRow(
                    genesis=services.genesis,
                    netuid=NETUID,
                    sequence=1,
                    block=8_512_345,
                    digest=said.digest,
                    content=said.digest,
                    envelope=envelope.to_json(),
                    leaf=0,
                    issued_at=issued,
                    expires_at=issued + LIFE,
                )
            )
        yield url, str(services.log_key)


@pytest.fixture
def desk(tmp_path, environment) -> Path:
    """What the page talks about: a program, two tables of scores and a policy."""
    desk = tmp_path / "desk"
    desk.mkdir()
    text = PAGE.read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (desk / "read.py").write_text(program)
    (policy,) = re.findall(r"^\$ cat mine.toml\n(.*?)^\$", text, re.MULTILINE | re.DOTALL)
    (desk / "mine.toml").write_text(policy)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    field = bernoulli(np.random.default_rng(3), np.array([0.5, 0.5, 0.65, 0.4]), width=4, questions=400)
    special = field.environments[0]
    assert isinstance(special, Items)
    special.scores[3] = np.random.default_rng(4).random(400) < 0.75
    place = {submission.hotkey: name for submission, name in zip(field.submissions, MINERS, strict=True)}
    table = []
    for hotkey, _, block, extrinsic, name, *rest in rows(field):
        miner = place[str(hotkey)]
        environment_name = ENVIRONMENTS[int(str(name).removeprefix("E"))]
        table.append((address(miner), revision(miner), block, extrinsic, environment_name, *rest))
    write(desk / "scores.csv", table)
    means = {name: means_of(e) for name, e in zip(ENVIRONMENTS, field.environments, strict=True)}
    entries = [
        entry(name, i, 100 + i, {e: {"score": float(mean[i]), "sample_count": 400} for e, mean in means.items()})
        for i, name in enumerate(MINERS)
    ]
    (desk / "affine.json").write_text(json.dumps(response(*entries)))
    return desk


@pytest.mark.timeout(290)
def test_every_command_of_the_page_prints_what_the_page_says(desk, service, environment):
    url, key = service
    run_page(PAGE, desk, os.environ | environment | {"SERVICE": url, "SERVICE_KEY": key}, seconds=280)


def test_every_code_a_reading_can_have_is_on_the_page():
    from forensics.client import Code

    page = PAGE.read_text()
    silent = {Code.NOTHING_YET, Code.NOT_LOGGED}  # before the first reading; by `check_logged`, as an error
    assert [code for code in Code if code not in silent and f"`{code}`" not in page] == []


def test_the_drill_table_names_what_is_drilled():
    """Every row of the table begins with words of a test's name."""
    table = PAGE.read_text().partition("| what goes wrong |")[2].partition("\n\n")[0]
    first = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
    names = " ".join(name.replace("_", " ") for name in vars(test_drill) if name.startswith("test_"))
    wanted = [re.split(r"[:,(`]", row)[0].strip().lower().split(" or ")[0] for row in first]
    assert [row for row in wanted if row and not all(word in names.lower() for word in row.split())] == []
