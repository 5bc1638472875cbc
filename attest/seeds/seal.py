"""Secrets at rest: ChaCha20-Poly1305 (RFC 8439) with the epoch's context as associated data.

A sealed secret opens only under its own context, so that a row that was copied to another epoch does not open there.
Layout: ``0x01 | nonce, 12 bytes | ciphertext and tag, 48 bytes``. A fresh random nonce each time: with one secret for
each epoch and a key for a few million of them, a repetition is out of reach.
"""

from __future__ import annotations

from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .derive import SIZE, Context, lp
from .errors import SealInvalid

NONCE_SIZE: Final = 12
SEALED_SIZE: Final = 1 + NONCE_SIZE + SIZE + 16
_VERSION: Final = b"\x01"
_DOMAIN: Final = lp(b"integrity/seed/v1/at-rest")


class SealKey(Protocol):
    """Where the 32-byte key comes from: an environment variable, a key manager."""

    def __call__(self) -> bytes:
        """The key; asked for each time it is needed, and not kept."""


def seal(secret: bytes, context: Context, *, key: bytes, nonce: bytes) -> bytes:
    """Seal a 32-byte secret.

    Args:
        secret: s.
        context: The epoch it belongs to.
        key: 32 bytes.
        nonce: 12 random bytes, never used before.

    Raises:
        SealInvalid: A wrong length.
    """
    if len(secret) != SIZE or len(nonce) != NONCE_SIZE:
        raise SealInvalid("wrong length", where="secret or nonce", expected=f"{SIZE} and {NONCE_SIZE} bytes")
    return _VERSION + nonce + _cipher(key).encrypt(nonce, secret, _bound(context))


def unseal(sealed: bytes, context: Context, *, key: bytes) -> bytes:
    """The secret that was sealed for this epoch.

    Raises:
        SealInvalid: Another key, another epoch, or changed bytes.
    """
    where = f"sealed secret of epoch {context.epoch}"
    if len(sealed) != SEALED_SIZE or sealed[:1] != _VERSION:
        raise SealInvalid("not a sealed secret", where=where, expected=f"{SEALED_SIZE} bytes, version 1")
    nonce, body = sealed[1 : 1 + NONCE_SIZE], sealed[1 + NONCE_SIZE :]
    try:
        return _cipher(key).decrypt(nonce, body, _bound(context))
    except InvalidTag:
        raise SealInvalid(
            "does not open: another key, another epoch, or changed bytes",
            where=where,
            remedy="Give the key it was sealed with; from R_open on the timelock opens it for everyone.",
        ) from None


def _bound(context: Context) -> bytes:
    return _DOMAIN + lp(context.encode())


def _cipher(key: bytes) -> ChaCha20Poly1305:
    if len(key) != SIZE:
        raise SealInvalid("the sealing key has a wrong length", expected=f"{SIZE} bytes")
    return ChaCha20Poly1305(key)
