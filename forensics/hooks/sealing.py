"""Webhook secrets at rest: ChaCha20-Poly1305 (RFC 8439) under a key that is derived from the service's own.

The database holds no key to them, and a backup of it alone opens none. The key is drawn from the service's Ed25519 key
by signing a text that nothing else signs (statements are signed as ``DSSEv1 ...``, checkpoints begin with the log's
name and a line feed): Ed25519 signatures are deterministic (RFC 8032), and this one never leaves the process. So every
worker that can sign snapshots can open secrets, and no further key needs looking after.

Layout: ``0x01 | nonce, 12 bytes | ciphertext and tag``; the subscription's name is bound as associated data, so that a
sealed secret opens in no other row.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from attest.keys.interface import Signer

from ..errors import StoreCorrupt

DOMAIN: Final = b"forensics/hooks/v1: key for webhook secrets at rest"
NONCE_SIZE: Final = 12
_VERSION: Final = b"\x01"


class Sealer:
    """Seals and opens webhook secrets.

    Args:
        signer: The service's key; its signatures must be deterministic.
        entropy: ``entropy(n)`` is n random bytes.
    """

    def __init__(self, signer: Signer, *, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        kdf = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=DOMAIN)
        self._cipher, self._entropy = ChaCha20Poly1305(kdf.derive(signer.sign(DOMAIN))), entropy

    def seal(self, secret: bytes, name: str) -> bytes:
        """The secret of the subscription of that name, to be stored."""
        nonce = self._entropy(NONCE_SIZE)
        return _VERSION + nonce + self._cipher.encrypt(nonce, secret, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """The secret.

        Raises:
            StoreCorrupt: Sealed under another service's key or for another subscription, or changed.
        """
        nonce, body = sealed[1 : 1 + NONCE_SIZE], sealed[1 + NONCE_SIZE :]
        try:
            if sealed[:1] != _VERSION or len(nonce) != NONCE_SIZE:
                raise InvalidTag
            return self._cipher.decrypt(nonce, body, name.encode())
        except InvalidTag:
            raise StoreCorrupt(
                "a webhook's secret does not open",
                where=name,
                remedy="It was sealed under another service key; the subscriber must make a new webhook.",
            ) from None
