"""Ed25519 (RFC 8032), with the checks that ``cryptography`` leaves out.

OpenSSL, behind ``cryptography`` 50, accepts a public key of small order: with the identity as key, one signature is
valid for every message. It also accepts keys whose y coordinate is not reduced, so one point has two encodings. Both
are refused here before any signature is looked at, as in ed25519-dalek's ``verify_strict`` and "Taming the Many
EdDSAs" (Chalkias, Garillot, Nikolaenko; eprint 2020/1244). S >= L (malleability) and R of small order are refused
too. Keys with a torsion part (large order times small) are accepted: they help nobody but their owner, who has the
key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature as LibraryInvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from attest.errors import InvalidKey, InvalidSignature
from attest.keys import ss58
from attest.keys.interface import Scheme

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
SEED_BYTES: Final = 32
P: Final = 2**255 - 19
"""The field's prime."""
L: Final = 2**252 + 27742317777372353535851937790883648493
"""Order of the prime subgroup; S must lie below it."""

_Y_MASK: Final = (1 << 255) - 1
_ORDER_8: Final = 2707385501144840649318225287225658788936804267575313519463743609750303402022
"""y of one point of order 8; the other is P minus it (checked in the tests against the curve equation)."""
SMALL_ORDER_Y: Final = frozenset({0, 1, P - 1, _ORDER_8, P - _ORDER_8})
"""y of the eight points whose order divides 8: identity, order 2, order 4 (two), order 8 (four)."""
_X_IS_ZERO: Final = frozenset({1, P - 1})


@dataclass(frozen=True, slots=True)
class Ed25519Verifier:
    """An Ed25519 public key that passed the strict checks.

    Args:
        public_bytes: The 32-byte canonical encoding.

    Raises:
        InvalidKey: Wrong length, y not reduced, not on the curve, or of small order.
    """

    public_bytes: bytes

    def __post_init__(self) -> None:
        _check_key(self.public_bytes)

    @property
    def scheme(self) -> Scheme:
        """Always Ed25519."""
        return Scheme.ED25519

    @property
    def keyid(self) -> str:
        """``ed25519:`` and the account's address at prefix 42."""
        return f"{Scheme.ED25519}:{ss58.encode(self.public_bytes)}"

    def verify(self, signature: bytes, message: bytes) -> None:
        """Return if the signature is good under the strict rules.

        Raises:
            InvalidSignature: In every other case.
        """
        if len(signature) != SIGNATURE_BYTES:
            raise InvalidSignature(
                "an Ed25519 signature has 64 bytes", where=self.keyid, got=len(signature), expected=SIGNATURE_BYTES
            )
        if int.from_bytes(signature[32:], "little") >= L:
            raise InvalidSignature("S is not reduced: a malleated signature", where=self.keyid, expected="S < L")
        if _y(signature[:32]) % P in SMALL_ORDER_Y:
            raise InvalidSignature("R has small order", where=self.keyid)
        try:
            Ed25519PublicKey.from_public_bytes(self.public_bytes).verify(signature, message)
        except LibraryInvalidSignature:
            raise InvalidSignature("not this key's signature over these bytes", where=self.keyid) from None


class Ed25519Signer:
    """An Ed25519 private key in memory; never shown, in no error and no ``repr``."""

    def __init__(self, seed: bytes) -> None:
        """Take the 32-byte seed of RFC 8032 section 5.1.5."""
        if len(seed) != SEED_BYTES:
            raise InvalidKey("an Ed25519 seed has 32 bytes", got=len(seed), expected=SEED_BYTES)
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._verifier = Ed25519Verifier(self._key.public_key().public_bytes_raw())

    @property
    def verifier(self) -> Ed25519Verifier:
        """The public half."""
        return self._verifier

    def sign(self, message: bytes) -> bytes:
        """The deterministic 64-byte signature over ``message``."""
        return self._key.sign(message)


def _y(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little") & _Y_MASK


def _check_key(encoded: bytes) -> None:
    if len(encoded) != KEY_BYTES:
        raise InvalidKey("an Ed25519 public key has 32 bytes", got=len(encoded), expected=KEY_BYTES)
    y, sign = _y(encoded), encoded[31] >> 7
    if y >= P or (sign and y in _X_IS_ZERO):
        raise InvalidKey("not the canonical encoding of its point", got=encoded.hex(), expected="y < 2^255 - 19")
    if y in SMALL_ORDER_Y:
        raise InvalidKey("a key of small order: one signature would be valid for all messages", got=encoded.hex())
    if not _on_curve(y):
        raise InvalidKey("not a point of the curve", got=encoded.hex())


@lru_cache(maxsize=1024)
def _on_curve(y: int) -> bool:
    """Whether x exists with -x^2 + y^2 = 1 + d x^2 y^2, by Euler's criterion on x^2 = (y^2 - 1) / (d y^2 + 1)."""
    d = -121665 * pow(121666, -1, P) % P
    square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
    return square == 0 or pow(square, (P - 1) // 2, P) == 1
