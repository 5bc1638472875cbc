"""Epochs committed ahead under one root, so that no commitment can be chosen late (grinding).

The leaves of the tree (RFC 6962) are, in order of their epochs,

    lp("integrity/seed/v1/batch") | lp(ctx) | lp(C) | lp(SHA-256(timelock ciphertext))

Whoever holds the root of N epochs holds all N: the operator cannot try secrets until one epoch turns out well, nor
leave one out unseen. Each epoch's statement names root, place and size, and comes with its inclusion proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from attest.log.errors import ProofInvalid
from attest.log.merkle import hash_leaf, hash_node, prove_inclusion, root_of, verify_inclusion

from .derive import Context, lp
from .errors import BatchInvalid

MAX_BATCH: Final = 4096
"""Most epochs committed ahead at once."""
_DOMAIN: Final = lp(b"integrity/seed/v1/batch")


@dataclass(frozen=True)
class Place:
    """An epoch's place in its batch: root, number, size, and the path that proves it (32-byte hashes)."""

    root: bytes
    index: int
    size: int
    path: tuple[bytes, ...]


def leaf(context: Context, committed: bytes, timelock: bytes) -> bytes:
    """The batch's leaf of an epoch."""
    return _DOMAIN + lp(context.encode()) + lp(committed) + lp(sha256(timelock).digest())


def places(leaves: Sequence[bytes]) -> list[Place]:
    """Where each of the leaves stands.

    Raises:
        BatchInvalid: None, or too many.
    """
    if not 0 < len(leaves) <= MAX_BATCH:
        raise BatchInvalid("wrong number of epochs", got=len(leaves), expected=f"1 to {MAX_BATCH}")
    hashes = [hash_leaf(body) for body in leaves]
    root = root_of(hashes)
    levels = _levels(hashes)
    return [
        Place(root, i, len(hashes), tuple(prove_inclusion(i, len(hashes), lambda level, n: levels[level][n])))
        for i in range(len(hashes))
    ]


def verify(place: Place, body: bytes) -> None:
    """Return if the leaf is where it is said to be.

    Raises:
        BatchInvalid: It is not.
    """
    try:
        verify_inclusion(hash_leaf(body), place.index, place.size, place.path, place.root)
    except ProofInvalid as error:
        raise BatchInvalid(f"not in its batch: {error.what}", where=f"epoch {place.index} of {place.size}") from None


def _levels(hashes: list[bytes]) -> list[list[bytes]]:
    """Perfect subtrees, level by level."""
    levels = [hashes]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([hash_node(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)])
    return levels
