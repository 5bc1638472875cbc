"""The miner's page and the sceptic's page, run as printed against a service that listens on loopback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from forensics.place import GENESIS
from forensics.settings import load
from tests.docs.pages import ROOT, run_page
from tests.forensics import models
from tests.forensics.attesting import Place, claim_of, make_wallet, signed, signer
from tests.forensics.serving import served

PAGES = [ROOT / "docs" / "prove-a-model-is-yours.md", ROOT / "docs" / "check-us.md"]


@pytest.fixture
def service(tmp_path):
    """A service with one claim in its log, and its URL."""
    with served(load(home=tmp_path / "service", genesis=GENESIS["finney"])) as running:
        yield running


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
    run_page(page, desk, os.environ | environment | {"SERVICE": url, "LOG_KEY": str(services.log_key)}, seconds=800)
