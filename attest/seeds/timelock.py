"""The secret, readable by everyone from R_open on: so that the operator can neither withhold it nor take it back.

The ciphertext is bittensor's timelock (``bittensor.timelock``, in ``bittensor_core``): Boneh-Franklin identity-based
encryption to a round of drand quicknet around an AES-GCM key, its correctness check included, so that a ciphertext
opens to one plaintext or to none. Encryption and opening are local; the clock and the network stay outside, which is
why the core is called and not the module around it, that asks both.

Hostile ciphertexts never reach the native code: it reads lengths out of the bytes. One of a 32-byte secret has exactly
one shape, and everything else is refused first.

    0x51 0x04 (compact length 276) | U, 96 bytes | u64le 32, V | u64le 32, W
    | u64le 76, (u64le 48, sealed secret and tag | u64le 12, nonce) | u64le 8, "AES_GCM_" | u64le round
"""

from __future__ import annotations

from typing import Final, Protocol

from .beacon import QUICKNET, Network, verify
from .derive import SIZE
from .errors import TimelockInvalid

CIPHERTEXT_SIZE: Final = 286
_SHAPE: Final = (
    (0, bytes.fromhex("5104")),
    (98, (32).to_bytes(8, "little")),
    (138, (32).to_bytes(8, "little")),
    (178, (76).to_bytes(8, "little")),
    (186, (48).to_bytes(8, "little")),
    (242, (12).to_bytes(8, "little")),
    (262, (8).to_bytes(8, "little") + b"AES_GCM_"),
)
"""Offsets and the bytes that must stand there."""
_U: Final = slice(2, 98)


class Timelock(Protocol):
    """Encryption to a round."""

    def encrypt(self, secret: bytes, round_: int) -> bytes:
        """The ciphertext of a 32-byte secret that the beacon's signature of ``round_`` opens."""


class QuicknetTimelock:
    """Encryption to a round of drand quicknet; its randomness comes from the operating system."""

    def encrypt(self, secret: bytes, round_: int) -> bytes:
        """The ciphertext of a 32-byte secret.

        Raises:
            TimelockInvalid: The secret has another length, or the library gave something unforeseen.
        """
        from bittensor_core import encrypt_at_round

        if len(secret) != SIZE:
            raise TimelockInvalid("wrong length", where="secret", expected=f"{SIZE} bytes")
        ciphertext, _ = encrypt_at_round(secret, round_)
        check_shape(bytes(ciphertext), round_)
        return bytes(ciphertext)


def check_shape(ciphertext: bytes, round_: int) -> None:
    """Return if this can be a ciphertext of one secret to that round; whether it opens, only the round will tell.

    Raises:
        TimelockInvalid: It cannot.
    """
    where = f"timelock of round {round_}"
    if len(ciphertext) != CIPHERTEXT_SIZE:
        raise TimelockInvalid("wrong length", where=where, got=len(ciphertext), expected=f"{CIPHERTEXT_SIZE} bytes")
    if any(ciphertext[at : at + len(word)] != word for at, word in _SHAPE):
        raise TimelockInvalid("not the shape of a timelocked secret", where=where)
    found = int.from_bytes(ciphertext[-8:], "little")
    if found != round_:
        raise TimelockInvalid("opens at another round", where=where, got=found, expected=round_)
    _check_point(ciphertext[_U], where)


def open_(ciphertext: bytes, round_: int, signature: bytes, *, network: Network = QUICKNET) -> bytes:
    """The 32-byte secret inside.

    Args:
        ciphertext: As published with the commitment.
        round_: R_open.
        signature: The beacon's signature of that round; verified here, so that a refusal condemns the ciphertext.
        network: The beacon.

    Raises:
        BeaconInvalid: The signature is not the beacon's.
        TimelockInvalid: The ciphertext opens to nothing: whoever published it is at fault.
    """
    from bittensor_core import decrypt_with_signature

    check_shape(ciphertext, round_)
    verify(round_, signature, network=network)
    try:
        secret = bytes(decrypt_with_signature(ciphertext, signature.hex()))
    except ValueError:
        raise TimelockInvalid("does not open", where=f"timelock of round {round_}") from None
    except BaseException as error:  # a panic of the native code is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise TimelockInvalid("does not open", where=f"timelock of round {round_}") from None
    if len(secret) != SIZE:
        raise TimelockInvalid("opens to something else than a secret", where=f"timelock of round {round_}")
    return secret


def _check_point(encoded: bytes, where: str) -> None:
    from py_arkworks_bls12381 import G2Point

    try:
        point = G2Point.from_compressed_bytes(encoded)
    except ValueError:
        raise TimelockInvalid("not a point of G2", where=where) from None
    if point == G2Point.identity() or bytes(point.to_compressed_bytes()) != encoded:
        raise TimelockInvalid("not the one encoding of a point", where=where)
