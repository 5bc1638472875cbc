"""A drand network whose key the tests hold: the same scheme and the same ciphertexts as quicknet, other signatures.

Encryption follows ideal-lab5/timelock (Apache-2.0), which bittensor's core uses with quicknet's key built in; opening
goes through bittensor's core itself.
"""

from __future__ import annotations

import dataclasses
from hashlib import sha256

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from attest.seeds import beacon
from attest.seeds.errors import BeaconUnavailable

ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001


class SimulatedBeacon:
    """Signs every round up to ``now``; ``late`` rounds are withheld, ``lies`` answers with something else."""

    def __init__(self, seed: bytes = b"a simulated league", *, now: int | None = None) -> None:
        self._key = Scalar(int.from_bytes(sha256(seed).digest(), "big") % ORDER)
        public = bytes((G2Point() * self._key).to_compressed_bytes())
        self.network = dataclasses.replace(beacon.QUICKNET, public_key=public)
        self.now = now
        self.late: set[int] = set()
        self.lies: dict[int, bytes] = {}

    def signature(self, round_: int) -> bytes:
        if round_ in self.lies:
            return self.lies[round_]
        if round_ in self.late or (self.now is not None and self.network.time_of(round_) > self.now):
            raise BeaconUnavailable("not out yet", where=f"round {round_}")
        return self.sign(round_)

    def sign(self, round_: int) -> bytes:
        return bytes((_hashed(round_) * self._key).to_compressed_bytes())

    def encrypt(self, secret: bytes, round_: int) -> bytes:
        """The ciphertext that quicknet's ``encrypt_at_round`` would give, for this network's key."""
        key = sha256(b"aes" + secret).digest()
        nonce = sha256(b"nonce" + secret).digest()[:12]
        sealed = AESGCM(key).encrypt(nonce, secret, b"")
        body = _vec(sealed) + _vec(nonce)
        content = self._identity_encrypted(key, round_) + _vec(body) + _vec(b"AES_GCM_")
        compact = (len(content) << 2 | 1).to_bytes(2, "little")
        return compact + content + round_.to_bytes(8, "little")

    def _identity_encrypted(self, key: bytes, round_: int) -> bytes:
        sigma = sha256(b"sigma" + key).digest()
        r = Scalar(int.from_bytes(sha256(sigma + key).digest(), "big") % ORDER)
        pad = sha256(bytes.fromhex(str(GT.pairing(_hashed(round_), (G2Point() * self._key) * r)))).digest()
        v = bytes(a ^ b for a, b in zip(sigma, pad, strict=True))
        w = bytes(a ^ b for a, b in zip(key, sha256(sigma).digest(), strict=True))
        return bytes((G2Point() * r).to_compressed_bytes()) + _vec(v) + _vec(w)


def _hashed(round_: int) -> G1Point:
    return G1Point.hash_to_curve(beacon.message(round_), beacon._DST)


def _vec(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
