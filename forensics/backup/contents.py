"""What a backup file holds: a tar with few names, and a manifest of what each member must be.

``forensics.db`` is a consistent copy of the database, ``blobs/ab/<64 hex>`` are named by their own digest,
``keys/service.vkey`` is the log's public key and name, ``keys.sealed`` the private keys under a password, and
``manifest.json`` comes last and holds the digest of everything that does not name its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from ..errors import BadInput

SCHEMA: Final = "forensics/backup/v1"
DATABASE, SEALED, MANIFEST, PUBLIC = "forensics.db", "keys.sealed", "manifest.json", "keys/service.vkey"
BLOB: Final = re.compile(r"blobs/([0-9a-f]{2})/(\1[0-9a-f]{62})", re.ASCII)
MANIFEST_LIMIT: Final = 1 << 20
KEYS_LIMIT: Final = 1 << 20
MIN_PASSWORD: Final = 12
_SALT, _NONCE, _SCRYPT_N = 16, 12, 1 << 17
_VERSION: Final = b"\x01"


@dataclass(frozen=True)
class Manifest:
    """What a backup is.

    Args:
        version: Schema of the database.
        digests: SHA-256 of the members that do not name their own, by name.
        blobs: How many blobs there are.
        made_at: When, ISO 8601.
    """

    version: str
    digests: dict[str, str]
    blobs: int
    made_at: str

    def to_bytes(self) -> bytes:
        """As JSON."""
        document = {"schema": SCHEMA, "version": self.version, "digests": self.digests, "blobs": self.blobs}
        return json.dumps(document | {"made_at": self.made_at}, indent=1, sort_keys=True).encode()

    @classmethod
    def read(cls, data: bytes) -> Manifest:
        """From JSON.

        Raises:
            BadInput: It is none of ours.
        """
        try:
            found: dict[str, Any] = json.loads(data)
            if found["schema"] != SCHEMA:
                raise ValueError(found["schema"])
            return cls(str(found["version"]), dict(found["digests"]), int(found["blobs"]), str(found["made_at"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadInput("not a backup's manifest", where=MANIFEST, got=str(error)[:80]) from None


def seal_keys(files: dict[str, bytes], password: str, *, entropy: bytes) -> bytes:
    """Key files under a password: scrypt (RFC 7914) and ChaCha20-Poly1305.

    Args:
        files: By name.
        password: At least ``MIN_PASSWORD`` characters.
        entropy: 28 random bytes.

    Raises:
        BadInput: The password is too short.
    """
    salt, nonce = entropy[:_SALT], entropy[_SALT : _SALT + _NONCE]
    text = json.dumps({name: data.decode() if name.endswith(".pem") else data.hex() for name, data in files.items()})
    return _VERSION + salt + nonce + _cipher(password, salt).encrypt(nonce, text.encode(), SCHEMA.encode())


def open_keys(sealed: bytes, password: str) -> dict[str, bytes]:
    """The key files.

    Raises:
        BadInput: Another password, or changed bytes.
    """
    salt, nonce = sealed[1 : 1 + _SALT], sealed[1 + _SALT : 1 + _SALT + _NONCE]
    try:
        if sealed[:1] != _VERSION or len(nonce) != _NONCE:
            raise InvalidTag
        text = _cipher(password, salt).decrypt(nonce, sealed[1 + _SALT + _NONCE :], SCHEMA.encode())
    except InvalidTag:
        raise BadInput("the keys do not open", where=SEALED, expected="the password they were sealed with") from None
    return {name: s.encode() if name.endswith(".pem") else bytes.fromhex(s) for name, s in json.loads(text).items()}


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def _cipher(password: str, salt: bytes) -> ChaCha20Poly1305:
    if len(password) < MIN_PASSWORD:
        where, expected = "FORENSICS_BACKUP_PASSWORD", f"at least {MIN_PASSWORD} characters"
        raise BadInput("the password is too short", where=where, expected=expected)
    return ChaCha20Poly1305(Scrypt(salt=salt, length=32, n=_SCRYPT_N, r=8, p=1).derive(password.encode()))
