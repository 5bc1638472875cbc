"""A chain in memory with one registered hotkey, and a log that is anchored on it."""

from __future__ import annotations

import pytest
from bittensor_core import Keypair

from attest.keys.ed25519 import Ed25519Signer
from attest.log import Log
from forensics.chain.anchors import CommitmentAnchors
from forensics.chain.fake import NETWORK, FakeSubstrate
from forensics.chain.subtensor import Subtensor
from forensics.log_store import DatabaseAnchors, DatabaseLog

NETUID = 120
SIGNER = Ed25519Signer(b"\x0c" * 32)
ORIGIN = "log.example/anchored"


@pytest.fixture(autouse=True)
def no_shared_cache(tmp_path, monkeypatch):
    """Bittensor keeps token symbols in the user's home."""
    monkeypatch.setenv("BTCLI_TOKEN_SYMBOLS_CACHE", str(tmp_path / "symbols.json"))


@pytest.fixture(scope="session")
def alice() -> Keypair:
    return Keypair.create_from_uri("//Alice")


@pytest.fixture(scope="session")
def bob() -> Keypair:
    return Keypair.create_from_uri("//Bob")


@pytest.fixture
def substrate(alice, bob) -> FakeSubstrate:
    return FakeSubstrate(registered=[(NETUID, alice.ss58_address), (NETUID, bob.ss58_address)])


@pytest.fixture
def connect(substrate):
    """Further connections to the same chain, closed in the end."""
    made = []

    def one(signer=None, to=substrate) -> Subtensor:
        made.append(Subtensor(NETWORK, signer=signer, substrate=to))
        return made[-1]

    yield one
    for chain in made:
        chain.close()


@pytest.fixture
def chain(connect, alice) -> Subtensor:
    return connect(alice)


@pytest.fixture
def log(bare) -> Log:
    log = Log(DatabaseLog(bare), SIGNER, origin=ORIGIN)
    log.append([f"entry {number}".encode() for number in range(10)])
    log.checkpoint()
    return log


@pytest.fixture
def book(bare) -> DatabaseAnchors:
    return DatabaseAnchors(bare)


@pytest.fixture
def anchors(chain, book) -> CommitmentAnchors:
    return CommitmentAnchors(chain, netuid=NETUID, book=book)
