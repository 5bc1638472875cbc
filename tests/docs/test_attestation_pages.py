"""The miner's page and the sceptic's page, run as printed against a service that listens on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch
import uvicorn

from forensics.api.app import create_app
from forensics.api.services import Services
from forensics.place import GENESIS
from forensics.settings import load
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.docs.test_commands import MARK, ROOT, environment, steps
from tests.forensics import models
from tests.forensics.attesting import Place, claim_of, make_wallet, signed, signer

PAGES = [ROOT / "docs" / "prove-a-model-is-yours.md", ROOT / "docs" / "check-us.md"]
__all__ = ["environment"]


@pytest.fixture
def service(tmp_path):
    """A service with one claim in its log, and its URL."""
    settings = load(home=tmp_path / "service", genesis=GENESIS["finney"])
    engine = connect(settings.database_url)
    ensure(engine)
    services = Services.open(settings, engine)
    server = uvicorn.Server(uvicorn.Config(create_app(services), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield services, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()
    engine.dispose()


@pytest.fixture
def desk(tmp_path, service) -> Path:
    """What the pages talk about: models, a wallet, and the receipt of somebody's claim."""
    desk = tmp_path / "desk"
    parent = models.decoder(1)
    trained = {n: t + torch.ones_like(t) * 0.01 if ".mlp." in n else t for n, t in parent.items()}
    for name, tensors in {"parent": parent, "better": trained, "secret": trained, "cold": parent}.items():
        models.write(tensors, desk / name)
    wallet = make_wallet(desk / "wallets", "ada")
    statement = claim_of(wallet.hotkey, place=Place(GENESIS["finney"], 120))
    received = service[0].attestations.receive(signed(statement, signer(wallet.hotkey)).to_json(), submitted_by="ada")
    (desk / "ada.tlog-proof").write_bytes(received.receipt)
    return desk


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_prints_what_the_page_says(page, desk, service, environment):
    services, url = service
    script = "".join(f"{step.command}\nrc=$?; printf '{MARK}'; (exit $rc)\n" for step in steps(page))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=desk,
        env=os.environ | environment | {"SERVICE": url, "LOG_KEY": str(services.log_key)},
        capture_output=True,
        text=True,
        timeout=800,
    )
    printed = done.stdout.split(MARK)
    for step, output in zip(steps(page), printed, strict=False):
        pieces = [" ".join(piece.split()) for line in step.expected for piece in line.split("...")]
        pattern = ".*".join(map(re.escape, pieces))
        assert re.search(pattern, " ".join(output.split())), f"$ {step.command}\n{output}\n{done.stderr[-2000:]}"
    assert len(printed) == len(steps(page)) + 1
