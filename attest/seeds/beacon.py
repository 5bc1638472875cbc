"""The public beacon that is mixed into every seed: drand quicknet, verified, never believed.

Quicknet signs each round with a threshold BLS key: scheme ``bls-unchained-g1-rfc9380``, so signatures are points of G1
(BLS12-381, 48 bytes compressed), the public key one of G2, and the message SHA-256(u64be round). The value of a round
is beta = SHA-256(signature). There is one valid signature for each round: whoever relays it can delay it, not choose
it. For that to hold, other spellings of the same point and points outside the subgroup are refused here: the curve
library reads some of them.

Chain hash and public key are constants (https://docs.drand.love). A network with another key is for rehearsals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from attest import canonical
from attest.errors import AttestError, InvalidKey

from .derive import QUICKNET_CHAIN
from .errors import BeaconInvalid, BeaconUnavailable

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G2Point

SIGNATURE_SIZE: Final = 48
PUBLIC_KEY_SIZE: Final = 96
MAX_ANSWER: Final = 4096
"""Longest answer of a relay that is read; a beacon is 250 bytes."""
_DST: Final = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"


@dataclass(frozen=True)
class Network:
    """A drand network: who signs, and when.

    Args:
        chain: Its chain hash, 32 bytes.
        public_key: Compressed point of G2, 96 bytes.
        genesis: POSIX time of round 1.
        period: Seconds between rounds.
    """

    chain: bytes
    public_key: bytes
    genesis: int
    period: int

    def time_of(self, round_: int) -> int:
        """POSIX time at which a round is published: t(R) = genesis + period (R - 1)."""
        return self.genesis + self.period * (round_ - 1)

    def round_at(self, time: int) -> int:
        """The newest round that is out at a POSIX time; 0 before the first."""
        return max(0, (time - self.genesis) // self.period + 1)

    @property
    def is_quicknet(self) -> bool:
        """Whether what it signs counts."""
        return self == QUICKNET


QUICKNET: Final = Network(
    chain=QUICKNET_CHAIN,
    public_key=bytes.fromhex(
        "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451"
        "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
    ),
    genesis=1692803367,
    period=3,
)


class Beacon(Protocol):
    """Where signatures come from; what it says is verified by whoever asks."""

    def signature(self, round_: int) -> bytes:
        """The bytes said to be the signature of a round.

        Raises:
            BeaconUnavailable: It is not out yet, or this source has not got it: ask again later.
        """


class FixedBeacon:
    """Signatures known beforehand: read from a file, or fixed in a test."""

    def __init__(self, signatures: Mapping[int, bytes]) -> None:
        self._signatures = dict(signatures)

    def signature(self, round_: int) -> bytes:
        """The signature of a round, if it is one of those known."""
        found = self._signatures.get(round_)
        if found is None:
            raise BeaconUnavailable("this source does not have the round", where=f"round {round_}")
        return found

    @classmethod
    def parse(cls, data: bytes) -> FixedBeacon:
        """Read a file of drand answers, one JSON object a line, as relays give them.

        Raises:
            BeaconInvalid: A line is no such answer.
        """
        return cls(dict(parse_answer(line) for line in data.splitlines() if line.strip()))


def parse_answer(data: bytes) -> tuple[int, bytes]:
    """Round and signature in a relay's answer (``/public/{round}``); nothing is verified.

    Raises:
        BeaconInvalid: It is no such answer.
    """
    try:
        members = canonical.read_object(data, where="beacon", max_bytes=MAX_ANSWER)
        round_, signature = members["round"], members["signature"]
        if not isinstance(round_, int) or isinstance(round_, bool) or not isinstance(signature, str):
            raise TypeError
        return round_, bytes.fromhex(signature)
    except (AttestError, KeyError, TypeError, ValueError):
        raise BeaconInvalid("not a beacon's answer", expected="JSON with round and signature") from None


def message(round_: int) -> bytes:
    """What the network signs: SHA-256 of the round as u64be."""
    return sha256(round_.to_bytes(8, "big")).digest()


def verify(round_: int, signature: bytes, *, network: Network = QUICKNET) -> bytes:
    """The beacon value of a round, if the signature is the one valid one.

    Returns:
        beta, 32 bytes.

    Raises:
        BeaconInvalid: It is not the network's signature of this round, or not in its one encoding.
        InvalidKey: The network's public key is no point of the group.
    """
    from py_arkworks_bls12381 import GT, G1Point, G2Point

    where = f"round {round_}"
    if not 0 < round_ < 1 << 64:
        raise BeaconInvalid("no such round", where=where)
    if len(signature) != SIGNATURE_SIZE:
        raise BeaconInvalid("wrong length", where=where, got=len(signature), expected=f"{SIGNATURE_SIZE} bytes")
    public = _public_key(network)
    try:
        point = G1Point.from_compressed_bytes(signature)
    except ValueError:
        raise BeaconInvalid("not a point of G1", where=where, got=signature.hex()) from None
    if point == G1Point.identity() or not point.is_in_subgroup() or bytes(point.to_compressed_bytes()) != signature:
        raise BeaconInvalid("not the one encoding of a signature", where=where, got=signature.hex())
    hashed = G1Point.hash_to_curve(message(round_), _DST)
    if not GT.pairing_check([point, -hashed], [G2Point(), public]):
        raise BeaconInvalid("not signed by the beacon", where=where, got=signature.hex())
    return sha256(signature).digest()


def signed(beacon: Beacon, round_: int, *, network: Network = QUICKNET) -> bytes:
    """The verified signature of a round from a source.

    Raises:
        BeaconUnavailable: Not to be had yet.
        BeaconInvalid: The source lies.
    """
    signature = beacon.signature(round_)
    verify(round_, signature, network=network)
    return signature


def value(signature: bytes) -> bytes:
    """The beacon value, beta, of a verified signature."""
    return sha256(signature).digest()


def _public_key(network: Network) -> G2Point:
    from py_arkworks_bls12381 import G2Point

    try:
        if len(network.public_key) != PUBLIC_KEY_SIZE:
            raise ValueError
        point = G2Point.from_compressed_bytes(network.public_key)
    except ValueError:
        raise InvalidKey("not a point of G2", where="beacon's public key", got=network.public_key.hex()) from None
    if point == G2Point.identity() or bytes(point.to_compressed_bytes()) != network.public_key:
        raise InvalidKey("no honest key looks like this", where="beacon's public key")
    return point
