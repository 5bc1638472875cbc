"""Hotkeys: scheme and address together, and bittensor wallets as signers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attest.errors import InvalidKey, InvalidSignature, UnsupportedInput
from attest.keys import service, ss58
from attest.keys.ed25519 import Ed25519Verifier
from attest.keys.hotkey import Hotkey, WalletSigner
from attest.keys.interface import Scheme, Signer, Verifier
from attest.keys.sr25519 import Sr25519Verifier
from tests.attest.material import BUNDLE_KEY, MINER, SERVICE, hotkey


def test_the_same_account_under_another_prefix_is_the_same_hotkey() -> None:
    key = MINER.verifier.public_bytes
    assert Hotkey(Scheme.SR25519, ss58.encode(key, prefix=0)) == Hotkey(Scheme.SR25519, ss58.encode(key))


def test_the_same_address_under_another_scheme_is_another_hotkey() -> None:
    address = hotkey(SERVICE).address
    assert Hotkey(Scheme.SR25519, address) != Hotkey(Scheme.ED25519, address)
    assert isinstance(Hotkey(Scheme.ED25519, address).verifier(), Ed25519Verifier)
    assert isinstance(hotkey(MINER).verifier(), Sr25519Verifier)


def test_no_account_signs_with_p256() -> None:
    with pytest.raises(UnsupportedInput):
        Hotkey(Scheme.P256, hotkey(MINER).address)


def test_the_account_of_all_zeros_has_no_key() -> None:
    for scheme in (Scheme.SR25519, Scheme.ED25519):
        with pytest.raises(InvalidKey):
            Hotkey(scheme, ss58.encode(bytes(32))).verifier()


@pytest.mark.parametrize("signer", [MINER, SERVICE, BUNDLE_KEY])
def test_signers_and_verifiers_meet_their_interface(signer: object) -> None:
    assert isinstance(signer, Signer)
    assert isinstance(signer.verifier, Verifier)


@pytest.mark.parametrize("crypto_type", [0, 1], ids=["ed25519", "sr25519"])
def test_a_bittensor_wallet_signs_what_verifies_strictly(tmp_path: Path, crypto_type: int) -> None:
    bittensor = pytest.importorskip("bittensor")
    wallet = bittensor.Wallet(name="cold", hotkey="hot", path=str(tmp_path))
    wallet.create_new_hotkey(use_password=False, suppress=True, crypto_type=crypto_type)
    signer = WalletSigner(bittensor.Wallet(name="cold", hotkey="hot", path=str(tmp_path)).hotkey)
    assert Hotkey.of(signer.verifier).address == wallet.hotkey.ss58_address
    assert signer.verifier.scheme is (Scheme.ED25519, Scheme.SR25519)[crypto_type]
    signer.verifier.verify(signer.sign(b"DSSEv1"), b"DSSEv1")
    with pytest.raises(InvalidKey, match="cannot sign"):
        WalletSigner(wallet.hotkeypub).sign(b"DSSEv1")


class WrappingWallet:
    """A wallet that signs the wrapped form, as browser extensions do."""

    public_key, crypto_type = MINER.verifier.public_bytes, 1

    def sign(self, data: bytes) -> bytes:
        return MINER.sign(b"<Bytes>" + data + b"</Bytes>")


def test_a_wallet_that_signs_something_else_is_caught() -> None:
    with pytest.raises(InvalidSignature):
        WalletSigner(WrappingWallet()).sign(b"DSSEv1")


def test_an_unknown_key_type_is_refused() -> None:
    wallet: Any = WrappingWallet()
    wallet.crypto_type = 2
    with pytest.raises(UnsupportedInput):
        WalletSigner(wallet)


def test_the_service_key_is_read_back_with_its_password_only() -> None:
    entropy = bytes(range(32))
    pem = service.to_pem(entropy, password=b"correct horse")
    assert service.from_pem(pem, password=b"correct horse").verifier == service.generate(entropy).verifier
    assert service.account(service.generate(entropy)).scheme is Scheme.ED25519
    for damaged, password in ((pem, b"wrong horses"), (pem[:-40], b"correct horse"), (b"", b"correct horse")):
        with pytest.raises(InvalidKey):
            service.from_pem(damaged, password=password)
    with pytest.raises(InvalidKey, match="Ed25519"):
        service.from_pem(BUNDLE_KEY.pem(password=b"correct horse"), password=b"correct horse")
    with pytest.raises(InvalidKey, match="too short"):
        service.to_pem(entropy, password=b"short")
