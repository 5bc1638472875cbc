"""Hotkeys: an account of the chain together with the one scheme it signs under.

The pair is what a statement carries and what this package compares. The same address under another scheme is another
identity, and the same account under another prefix is the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from attest.errors import InvalidKey, UnsupportedInput
from attest.keys import ss58
from attest.keys.ed25519 import Ed25519Verifier
from attest.keys.interface import HOTKEY_SCHEMES, Scheme, Verifier
from attest.keys.sr25519 import Sr25519Verifier


@dataclass(frozen=True, slots=True, order=True)
class Hotkey:
    """Scheme and address; equal when both are, after normalisation to prefix 42.

    Args:
        scheme: sr25519 or ed25519.
        address: SS58 of any prefix; kept at prefix 42.

    Raises:
        InvalidKey: Not an address of a 32-byte account.
        UnsupportedInput: A scheme no account has.
    """

    scheme: Scheme
    address: str

    def __post_init__(self) -> None:
        if self.scheme not in HOTKEY_SCHEMES:
            raise UnsupportedInput("no account signs under this scheme", got=self.scheme, expected="sr25519 or ed25519")
        object.__setattr__(self, "scheme", Scheme(self.scheme))
        object.__setattr__(self, "address", ss58.normalise(self.address))

    @classmethod
    def of(cls, verifier: Verifier) -> Hotkey:
        """The account whose key this is."""
        return cls(verifier.scheme, ss58.encode(verifier.public_bytes))

    @property
    def public_bytes(self) -> bytes:
        """The 32-byte account id, which is the public key."""
        return ss58.account_id(self.address)

    def verifier(self) -> Verifier:
        """The key to check this account's signatures with; only its own scheme, never the other.

        Raises:
            InvalidKey: The account id is no honest key of that scheme.
        """
        if self.scheme is Scheme.SR25519:
            return Sr25519Verifier(self.public_bytes)
        return Ed25519Verifier(self.public_bytes)

    def __str__(self) -> str:
        return f"{self.scheme}:{self.address}"


class WalletKeypair(Protocol):
    """What is used of a bittensor 11 ``Keypair`` (``Wallet(...).hotkey``)."""

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        ...

    @property
    def crypto_type(self) -> int:
        """0 for ed25519, 1 for sr25519, as in the chain's MultiSignature."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Signature over the bytes as they are."""
        ...


CRYPTO_TYPES = {0: Scheme.ED25519, 1: Scheme.SR25519}
"""``bittensor_core.CRYPTO_ED25519`` and ``CRYPTO_SR25519``."""


class WalletSigner:
    """Signs with a hotkey that stays inside its wallet; each signature is checked strictly before it is used."""

    def __init__(self, keypair: WalletKeypair) -> None:
        scheme = CRYPTO_TYPES.get(keypair.crypto_type)
        if scheme is None:
            raise UnsupportedInput("the wallet's key has an unknown type", got=keypair.crypto_type, expected="0 or 1")
        self._keypair = keypair
        self._verifier = Hotkey(scheme, ss58.encode(bytes(keypair.public_key))).verifier()

    @property
    def verifier(self) -> Verifier:
        """The public half."""
        return self._verifier

    def sign(self, message: bytes) -> bytes:
        """Signature over exactly ``message``.

        Raises:
            InvalidKey: The wallet holds no private key.
            InvalidSignature: The wallet signed something else (a wrapped form, or for another key).
        """
        try:
            signature = bytes(self._keypair.sign(message))
        except (ValueError, TypeError, RuntimeError) as error:
            raise InvalidKey(
                "the wallet cannot sign", where=self._verifier.keyid, got=str(error), remedy="Unlock its hotkey file"
            ) from None
        self._verifier.verify(signature, message)
        return signature
