"""ECDSA over P-256 with SHA-256: the key of a model-signing bundle (OMS v1.0 section on key-based signing).

Signatures are strict DER (``cryptography`` 50 refuses BER, trailing bytes and zero r or s: all 484 Wycheproof cases).
(r, s) and (r, n - s) are both valid for whoever signed, so bundles are compared by payload and never by signature;
ours are deterministic (RFC 6979) and carry the smaller s. The claim made by a hotkey names this key by
``spki_digest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature as LibraryInvalidSignature
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from attest.errors import InvalidKey, InvalidSignature
from attest.keys.interface import Scheme

N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the group (FIPS 186-5, SP 800-186)."""
RAW_BYTES: Final = 64
"""r | s, each 32 bytes big-endian, as in the DSSE specification's test vector."""
MAX_DER_BYTES: Final = 72
_MAX_KEY_BYTES: Final = 4096
_CURVE: Final = ec.SECP256R1
_HASH: Final = hashes.SHA256


@dataclass(frozen=True, slots=True)
class P256Verifier:
    """A P-256 public key.

    Args:
        public_bytes: DER SubjectPublicKeyInfo with the uncompressed point, its one canonical form here.

    Raises:
        InvalidKey: Not such a key.
    """

    public_bytes: bytes

    def __post_init__(self) -> None:
        if _der(_load(self.public_bytes, pem=False)) != self.public_bytes:
            raise InvalidKey("not the canonical encoding of this P-256 key", expected="uncompressed point, named curve")

    @classmethod
    def from_pem(cls, pem: bytes) -> P256Verifier:
        """Read a ``BEGIN PUBLIC KEY`` file."""
        return cls(_der(_load(pem, pem=True)))

    @classmethod
    def from_point(cls, x: int, y: int) -> P256Verifier:
        """Take the affine coordinates.

        Raises:
            InvalidKey: The point is not on the curve.
        """
        try:
            return cls(_der(ec.EllipticCurvePublicNumbers(x, y, _CURVE()).public_key()))
        except ValueError:
            raise InvalidKey("not a point of P-256") from None

    @property
    def scheme(self) -> Scheme:
        """Always ECDSA P-256 with SHA-256."""
        return Scheme.P256

    @property
    def spki_digest(self) -> str:
        """``sha256:`` of the DER SubjectPublicKeyInfo; how an ownership claim names this key."""
        return "sha256:" + sha256(self.public_bytes).hexdigest()

    @property
    def keyid(self) -> str:
        """``ecdsa-p256-sha256:`` and the digest of the key."""
        return f"{Scheme.P256}:{sha256(self.public_bytes).hexdigest()}"

    def pem(self) -> bytes:
        """The ``BEGIN PUBLIC KEY`` text, whose SHA-256 is the hint in a model-signing bundle."""
        return _load(self.public_bytes, pem=False).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def verify(self, signature: bytes, message: bytes) -> None:
        """Return if the DER signature is good.

        Raises:
            InvalidSignature: In every other case.
        """
        if len(signature) > MAX_DER_BYTES:
            raise InvalidSignature("too long for P-256", where=self.keyid, got=len(signature), expected=MAX_DER_BYTES)
        try:
            _load(self.public_bytes, pem=False).verify(signature, message, ec.ECDSA(_HASH()))
        except LibraryInvalidSignature:
            raise InvalidSignature("not this key's signature over these bytes", where=self.keyid) from None


class P256Signer:
    """A P-256 private key in memory; never shown, in no error and no ``repr``."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        if not isinstance(key.curve, _CURVE):
            raise InvalidKey("not a P-256 key", got=key.curve.name, expected=_CURVE.name)
        self._key = key
        self._verifier = P256Verifier(_der(key.public_key()))

    @classmethod
    def from_scalar(cls, scalar: int) -> P256Signer:
        """Take the private scalar, 1..n-1."""
        if not 0 < scalar < N:
            raise InvalidKey("the private scalar lies outside the group", expected="1..n-1")
        return cls(ec.derive_private_key(scalar, _CURVE()))

    @classmethod
    def from_pem(cls, pem: bytes, *, password: bytes | None = None) -> P256Signer:
        """Read a PEM private key (PKCS#8 or SEC 1), encrypted or not.

        Raises:
            InvalidKey: Not such a file, another curve, or a wrong password.
        """
        try:
            key = serialization.load_pem_private_key(pem[:_MAX_KEY_BYTES], password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise InvalidKey(
                "not a readable PEM private key", remedy="Check the file and its password", expected="P-256"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InvalidKey("not an elliptic-curve key", got=type(key).__name__, expected="P-256")
        return cls(key)

    @property
    def verifier(self) -> P256Verifier:
        """The public half."""
        return self._verifier

    def pem(self, *, password: bytes | None = None) -> bytes:
        """The private key as PKCS#8 PEM, encrypted when a password is given."""
        protection: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        )
        return self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)

    def sign(self, message: bytes) -> bytes:
        """The deterministic DER signature (RFC 6979) with the smaller of the two possible s."""
        der = self._key.sign(message, ec.ECDSA(_HASH(), deterministic_signing=True))
        r, s = utils.decode_dss_signature(der)
        return utils.encode_dss_signature(r, min(s, N - s))


def raw_to_der(raw: bytes) -> bytes:
    """DER form of a 64-byte r | s signature.

    Raises:
        InvalidSignature: Not 64 bytes.
    """
    if len(raw) != RAW_BYTES:
        raise InvalidSignature("a raw P-256 signature has 64 bytes", got=len(raw), expected=RAW_BYTES)
    return utils.encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))


def _load(data: bytes, *, pem: bool) -> ec.EllipticCurvePublicKey:
    loader = serialization.load_pem_public_key if pem else serialization.load_der_public_key
    try:
        key = loader(data[:_MAX_KEY_BYTES])
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidKey("not a public key", expected="SubjectPublicKeyInfo of a P-256 key") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, _CURVE):
        raise InvalidKey("not a P-256 key", got=type(key).__name__, expected=_CURVE.name)
    return key


def _der(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
