"""The service's own key: Ed25519, kept as a PKCS#8 file, known to clients by name and public key.

Verdicts, seed statements, decisions made by the service and log checkpoints are signed with it. In statements it
appears as an account (ed25519, SS58 prefix 42) like every other signer, so that one context fits all. Clients pin the
public key; the name is the log's origin.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.errors import InvalidKey
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.hotkey import Hotkey

MIN_PASSWORD_BYTES: Final = 8
_MAX_FILE_BYTES: Final = 4096


def generate(entropy: bytes) -> Ed25519Signer:
    """The service key made of 32 bytes of entropy, which the caller draws from the operating system."""
    return Ed25519Signer(entropy)


def to_pem(entropy: bytes, *, password: bytes | None) -> bytes:
    """The key of that entropy as a PKCS#8 file.

    Args:
        entropy: 32 bytes.
        password: Encrypts the file; without one the file's permissions are all that protects it.

    Raises:
        InvalidKey: The entropy is not 32 bytes, or the password is too short to be one.
    """
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        if len(password) < MIN_PASSWORD_BYTES:
            raise InvalidKey("the password is too short", expected=f"at least {MIN_PASSWORD_BYTES} bytes")
        protection = serialization.BestAvailableEncryption(password)
    Ed25519Signer(entropy)
    return Ed25519PrivateKey.from_private_bytes(entropy).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        protection,
    )


def from_pem(pem: bytes, *, password: bytes | None) -> Ed25519Signer:
    """Read the file written by ``to_pem``.

    Raises:
        InvalidKey: Damaged, of another kind, or a wrong password.
    """
    try:
        key = serialization.load_pem_private_key(pem[:_MAX_FILE_BYTES], password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidKey(
            "the service key cannot be read", expected="PKCS#8, Ed25519", remedy="Check file and password"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidKey("not an Ed25519 key", got=type(key).__name__, expected="Ed25519")
    return Ed25519Signer(key.private_bytes_raw())


def account(signer: Ed25519Signer) -> Hotkey:
    """The service as it appears in the context of its statements."""
    return Hotkey.of(signer.verifier)
