"""Wallets, small models, and a service with a door that needs no network."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import bittensor
import torch
from bittensor import http_auth, sp_core
from safetensors.torch import save_file

from attest import claims
from attest import envelope as dsse
from attest.envelope import Envelope
from attest.keys.hotkey import Hotkey, WalletSigner
from attest.keys.interface import Signer
from attest.log.anchor import Anchor
from attest.log.note import open_checkpoint
from attest.predicates import Context
from attest.statement import Statement
from forensics.api.services import Services
from forensics.place import Place

GENESIS = "0x" + sha256(b"a chain").hexdigest()
NETUID = 120
PLACE = Place(GENESIS, NETUID, "demo")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SR25519, ED25519 = 1, 0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def nanoseconds(self) -> int:
        return int(self.now.timestamp()) * 10**9 + self.now.microsecond * 1000


def make_wallet(folder: Path, name: str, *, crypto_type: int = SR25519) -> Any:
    """A bittensor wallet with a hotkey, on disk."""
    wallet = bittensor.Wallet(name, "hot", path=str(folder))
    wallet.create_new_hotkey(use_password=False, suppress=True, crypto_type=crypto_type)
    return wallet


def pair(name: str, *, crypto_type: int = SR25519) -> Any:
    """A hotkey pair, the same for the same name."""
    return sp_core.Keypair.create_from_seed(sha256(name.encode()).digest(), crypto_type)


def signer(keypair: Any) -> WalletSigner:
    return WalletSigner(keypair)


def hotkey(keypair: Any) -> Hotkey:
    return Hotkey.of(signer(keypair).verifier)


def small_model(folder: Path, seed: int = 1, **changed: float) -> Path:
    """A model of two tensors and a config, about 250 bytes in all; ``b=2.0`` changes a tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(2, 2, generator=generator) for name in ("a", "b")}
    tensors |= {name: torch.full((2, 2), value) for name, value in changed.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": "toy", "n": 4}))
    return folder


def digest(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


def context(keypair: Any, *, place: Place = PLACE, parents: tuple[str, ...] = ()) -> Context:
    return place.context(hotkey(keypair), clock=Clock(), parents=parents)


def claim_of(keypair: Any, model: str = "m", *, place: Place = PLACE) -> Statement:
    """An open claim to a content root made of a word."""
    return claims.own(context(keypair, place=place), claims.Roots(digest(model)))


def signed(statement: Statement, *signers: Signer) -> Envelope:
    return dsse.sign(statement.payload(), list(signers))


def post(services: Services, client: Any, keypair: Any, body: bytes, **headers: str) -> Any:
    """Hand in a statement with a signed request, at the service's time."""
    clock: Any = services.clock
    auth = http_auth.sign(
        keypair,
        method="POST",
        path="/v1/attestations",
        body=body,
        receiver_ss58=services.hotkey,
        nonce_ns=clock.nanoseconds,
    )
    clock.forward(0.001)
    return client.post("/v1/attestations", content=body, headers=auth | headers)


def anchor(services: Services, block: int, extrinsic: int = 0) -> None:
    """Put the newest checkpoint on a chain that exists in the test alone."""
    note = services.log.checkpoint()
    checkpoint = open_checkpoint(note, log=services.log_key).checkpoint
    seen = Anchor(block, extrinsic, bytes.fromhex(GENESIS[2:]), NETUID, b"\1" * 32, checkpoint.digest())
    services.attestations.anchors.add(checkpoint, seen)


def flipped(data: bytes, at: int, by: int = 1) -> bytes:
    """The bytes with one of them changed."""
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]
