"""What a key can do, whatever its scheme.

A ``Verifier`` is one public key under one named scheme; nothing in this package ever tries a second scheme on the
same bytes, because an address does not say which scheme it belongs to (algorithm confusion). ``verify`` returns
nothing and raises on anything but a good signature, so that a forgotten ``if`` cannot accept one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, runtime_checkable


class Scheme(StrEnum):
    """Signature schemes by the name that is signed inside a statement."""

    SR25519 = "sr25519"
    """Schnorr over ristretto255, signing context ``substrate``; randomised."""
    ED25519 = "ed25519"
    """RFC 8032 with the strict checks of ``attest.keys.ed25519``."""
    P256 = "ecdsa-p256-sha256"
    """ECDSA over NIST P-256 with SHA-256, DER signatures; for model-signing bundles only."""


HOTKEY_SCHEMES = (Scheme.SR25519, Scheme.ED25519)
"""Schemes an account of the chain can have."""


@runtime_checkable
class Verifier(Protocol):
    """One public key under one scheme."""

    @property
    def scheme(self) -> Scheme:
        """The only scheme this key is used with."""
        ...

    @property
    def public_bytes(self) -> bytes:
        """The key's one canonical encoding; two keys are the same when scheme and bytes are."""
        ...

    @property
    def keyid(self) -> str:
        """Hint put beside signatures: ``scheme:name``. Never trusted, only used to find the key sooner."""
        ...

    def verify(self, signature: bytes, message: bytes) -> None:
        """Return if ``signature`` is this key's over exactly ``message``.

        Raises:
            InvalidSignature: In every other case, whatever the bytes.
        """
        ...


@runtime_checkable
class Signer(Protocol):
    """A private key, wherever it lives."""

    @property
    def verifier(self) -> Verifier:
        """The public half."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Signature over exactly ``message``, in the encoding that the verifier takes."""
        ...
