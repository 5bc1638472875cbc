"""sr25519: Schnorr signatures over ristretto255 with the signing context ``substrate`` (schnorrkel).

Verification is strict: exact lengths, the marker bit set, and the message as it is. Wallets that sign arbitrary text
put ``<Bytes>`` around it, and bittensor's own ``verify`` tries both forms; here one form is tried, and
``attest.envelope`` says which. py-sr25519-bindings 0.2.4 accepts the all-zero public key (the identity of the group),
for which one signature is valid for every message; it is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sr25519

from attest.errors import InvalidKey, InvalidSignature
from attest.keys import ss58
from attest.keys.interface import Scheme

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
SEED_BYTES: Final = 32
MARKER: Final = 0x80
"""Bit that says schnorrkel, in the last byte of a signature; without it the bytes might be an Ed25519 signature."""
IDENTITY: Final = bytes(KEY_BYTES)
"""ristretto255's neutral element: as a public key, a universal forgery."""


@dataclass(frozen=True, slots=True)
class Sr25519Verifier:
    """An sr25519 public key.

    Args:
        public_bytes: The 32-byte ristretto255 encoding.

    Raises:
        InvalidKey: Wrong length, no ristretto255 point, or the identity.
    """

    public_bytes: bytes

    def __post_init__(self) -> None:
        if len(self.public_bytes) != KEY_BYTES:
            raise InvalidKey("an sr25519 public key has 32 bytes", got=len(self.public_bytes), expected=KEY_BYTES)
        if self.public_bytes == IDENTITY:
            raise InvalidKey("the identity as key: one signature would be valid for all messages")
        try:
            sr25519.verify(_WELL_FORMED, b"", self.public_bytes)
        except ValueError:
            raise InvalidKey("not a ristretto255 point", got=self.public_bytes.hex()) from None

    @property
    def scheme(self) -> Scheme:
        """Always sr25519."""
        return Scheme.SR25519

    @property
    def keyid(self) -> str:
        """``sr25519:`` and the account's address at prefix 42."""
        return f"{Scheme.SR25519}:{ss58.encode(self.public_bytes)}"

    def verify(self, signature: bytes, message: bytes) -> None:
        """Return if the signature is this key's over exactly ``message``.

        Raises:
            InvalidSignature: In every other case; also for a signature over the wrapped or unwrapped form.
        """
        if len(signature) != SIGNATURE_BYTES:
            raise InvalidSignature(
                "an sr25519 signature has 64 bytes", where=self.keyid, got=len(signature), expected=SIGNATURE_BYTES
            )
        if not signature[-1] & MARKER:
            raise InvalidSignature("the marker bit of sr25519 is not set", where=self.keyid)
        try:
            good = sr25519.verify(bytes(signature), bytes(message), self.public_bytes)
        except ValueError as error:
            raise InvalidSignature("not an sr25519 signature", where=self.keyid, got=str(error)) from None
        if not good:
            raise InvalidSignature("not this key's signature over these bytes", where=self.keyid)


_WELL_FORMED: Final = bytes(SIGNATURE_BYTES - 1) + bytes([MARKER])
"""R = identity, s = 0: parses, so that only the key can be at fault."""


class Sr25519Signer:
    """An sr25519 private key in memory; never shown, in no error and no ``repr``."""

    def __init__(self, seed: bytes) -> None:
        """Take the 32-byte mini secret (what a mnemonic or ``//Alice`` expands to)."""
        if len(seed) != SEED_BYTES:
            raise InvalidKey("an sr25519 mini secret has 32 bytes", got=len(seed), expected=SEED_BYTES)
        self._pair = sr25519.pair_from_seed(seed)
        self._verifier = Sr25519Verifier(bytes(self._pair[0]))

    @property
    def verifier(self) -> Sr25519Verifier:
        """The public half."""
        return self._verifier

    def sign(self, message: bytes) -> bytes:
        """A randomised 64-byte signature; the nonce is drawn inside the library."""
        return bytes(sr25519.sign(self._pair, message))
