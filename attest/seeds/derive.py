"""The seed scheme: commitment, final seed and item keys (HKDF-SHA256, RFC 5869).

    lp(x) = u32be length | x
    ctx = lp(genesis)|u16 netuid|lp(competition)|u64 epoch|lp(pool)|lp(generator)|lp(drand chain)|u64 R_mix|u64 R_open
    C   = SHA256(lp("integrity/seed/v1/commit") | lp(ctx) | lp(s))
    S   = HKDF-SHA256(ikm = s | beta(R_mix), salt = C, info = lp("integrity/seed/v1/final") | lp(ctx))
    k_i = HKDF-Expand(S, lp("integrity/seed/v1/item") | lp(environment) | u64 i)

Integers are big-endian. s is 32 random bytes, fresh for each epoch; beta is SHA-256 of the beacon's signature of
R_mix. Who lacks s learns nothing of S from C; who has s but not beta neither, and beta does not exist before the round.
Every output is 32 bytes. Golden values are in ``tests/data/attest/vectors.json``.

Only the standard library is used, and nothing here depends on the platform or the interpreter's version.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from attest.errors import CommitmentMismatch, MalformedInput

SIZE: Final = 32
"""Bytes of a secret, a beacon value, a commitment, a seed, a key."""
QUICKNET_CHAIN: Final = bytes.fromhex("52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971")
"""Chain hash of drand quicknet."""
MAX_TEXT: Final = 512
"""Longest competition or environment name, in UTF-8 bytes."""

_COMMIT: Final = b"integrity/seed/v1/commit"
_FINAL: Final = b"integrity/seed/v1/final"
_ITEM: Final = b"integrity/seed/v1/item"
_U16: Final = 1 << 16
_U64: Final = 1 << 64


def lp(value: bytes) -> bytes:
    """Length-prefixed: u32be length, then the bytes. Concatenations of these cannot be read in two ways."""
    return len(value).to_bytes(4, "big") + value


@dataclass(frozen=True)
class Context:
    """Everything public that an epoch's seed is bound to.

    Args:
        genesis: Genesis hash of the chain, 32 bytes.
        netuid: Subnet number.
        competition: Name of the competition.
        epoch: Number of the epoch.
        pool: SHA-256 of the task pool.
        generator: SHA-256 of the task generators.
        mix_round: Beacon round that is mixed into the seed; submissions close before it.
        open_round: Beacon round from which the secret can be opened by anyone.
        chain: The beacon's chain hash, 32 bytes.

    Raises:
        MalformedInput: A value out of range, or rounds out of order.
    """

    genesis: bytes
    netuid: int
    competition: str
    epoch: int
    pool: bytes
    generator: bytes
    mix_round: int
    open_round: int
    chain: bytes = QUICKNET_CHAIN

    def __post_init__(self) -> None:
        for name in ("genesis", "pool", "generator", "chain"):
            _sized(getattr(self, name), where=f"seed context: {name}")
        _ranged(self.netuid, 0, _U16, where="seed context: netuid")
        _ranged(self.epoch, 0, _U64, where="seed context: epoch")
        _ranged(self.mix_round, 1, _U64, where="seed context: mix_round")
        _ranged(self.open_round, self.mix_round + 1, _U64, where="seed context: open_round")
        name_bytes(self.competition, where="seed context: competition")

    def encode(self) -> bytes:
        """The bytes ``ctx``; different contexts have different bytes."""
        return b"".join(
            (
                lp(self.genesis),
                self.netuid.to_bytes(2, "big"),
                lp(self.competition.encode()),
                self.epoch.to_bytes(8, "big"),
                lp(self.pool),
                lp(self.generator),
                lp(self.chain),
                self.mix_round.to_bytes(8, "big"),
                self.open_round.to_bytes(8, "big"),
            )
        )


def commitment(context: Context, secret: bytes) -> bytes:
    """C: binds the 32-byte secret to its epoch and tells nothing of it."""
    _sized(secret, where="secret", public=False)
    return sha256(lp(_COMMIT) + lp(context.encode()) + lp(secret)).digest()


def check_opening(context: Context, secret: bytes, committed: bytes) -> None:
    """Return if the secret is the one that was committed to.

    Raises:
        CommitmentMismatch: It is another one, or of another context.
    """
    found = commitment(context, secret)
    if not hmac.compare_digest(found, committed):
        raise CommitmentMismatch(
            "the secret does not open the commitment",
            where=f"epoch {context.epoch}",
            got=found.hex(),
            expected=committed.hex(),
        )


def final_seed(context: Context, secret: bytes, beta: bytes) -> bytes:
    """S: what secret and beacon give together.

    Args:
        context: The epoch's context.
        secret: s, 32 bytes.
        beta: The verified beacon value of ``context.mix_round``, 32 bytes.
    """
    _sized(secret, where="secret", public=False)
    _sized(beta, where="beacon value")
    pseudorandom = hmac.digest(commitment(context, secret), secret + beta, "sha256")
    return _expand(pseudorandom, lp(_FINAL) + lp(context.encode()))


def item_key(seed: bytes, environment: str, index: int) -> bytes:
    """k_i: the 32-byte key from which every choice in item ``index`` of an environment is drawn."""
    _sized(seed, where="seed", public=False)
    _ranged(index, 0, _U64, where="item index")
    return _expand(seed, lp(_ITEM) + lp(name_bytes(environment, where="environment")) + index.to_bytes(8, "big"))


def item_keys(seed: bytes, environment: str, count: int, *, start: int = 0) -> Iterator[bytes]:
    """Keys ``start`` to ``start + count`` of an environment, in order."""
    return (item_key(seed, environment, index) for index in range(start, start + count))


def _expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand to one block: T(1)."""
    return hmac.digest(key, info + b"\x01", "sha256")


def _sized(value: bytes, *, where: str, public: bool = True) -> None:
    if not isinstance(value, bytes) or len(value) != SIZE:
        got = len(value) if public and isinstance(value, bytes) else type(value).__name__
        raise MalformedInput("wrong length", where=where, got=got, expected=f"{SIZE} bytes")


def _ranged(value: int, low: int, stop: int, *, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < stop:
        raise MalformedInput("out of range", where=where, got=value, expected=f"{low} to {stop - 1}")


def name_bytes(text: str, *, where: str) -> bytes:
    """The UTF-8 bytes of a name of bounded length.

    Raises:
        MalformedInput: Empty, too long, or without a UTF-8 form.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise MalformedInput("not text that has a UTF-8 form", where=where) from None
    if not 0 < len(raw) <= MAX_TEXT:
        raise MalformedInput("wrong length", where=where, got=len(raw), expected=f"1 to {MAX_TEXT} bytes")
    return raw
