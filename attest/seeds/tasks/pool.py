"""Items of a pool that exists already: the n with the smallest HMAC under the epoch's seed.

Environments whose tasks are numbered (an evaluation pool is a set of task ids) need no generator, only a choice that
nobody could foresee. The same seed, environment and pool give the same choice in any order of the pool, and adding a
task to the pool changes at most one place of it.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from hashlib import sha256
from typing import Final

from attest.errors import MalformedInput
from attest.seeds.derive import SIZE, lp, name_bytes

_DOMAIN: Final = lp(b"integrity/seed/v1/pool")
MAX_POOL: Final = 10_000_000


def select(ids: Collection[int | str], *, seed: bytes, environment: str, count: int) -> list[int | str]:
    """The ``count`` items that the seed picks, smallest HMAC first.

    Args:
        ids: Task numbers (64 bits, not negative) or names; all different.
        seed: S, 32 bytes.
        environment: Their environment.
        count: How many.

    Raises:
        MalformedInput: Not a seed, a name twice, fewer ids than asked for, or one that is neither number nor name.
    """
    if not isinstance(seed, bytes) or len(seed) != SIZE:
        raise MalformedInput("wrong length", where="seed", expected=f"{SIZE} bytes")
    if not 0 <= count <= len(ids) <= MAX_POOL:
        raise MalformedInput("not a number of items", where="pool", got=count, expected=f"0 to {len(ids)}")
    key = hmac.digest(seed, _DOMAIN + lp(name_bytes(environment, where="environment")), "sha256")
    ranked = sorted((hmac.digest(key, _bytes(item), "sha256"), place) for place, item in enumerate(ids))
    listed = list(ids)
    if len({_bytes(item) for item in listed}) != len(listed):
        raise MalformedInput("an id comes twice", where="pool")
    return [listed[place] for _, place in ranked[:count]]


def pool_digest(ids: Collection[int | str]) -> str:
    """``sha256:`` and 64 hex digits of the pool, whatever its order: what the plan commits to."""
    return "sha256:" + sha256(b"".join(sorted(_bytes(item) for item in ids))).hexdigest()


def _bytes(item: int | str) -> bytes:
    """A number and the name that looks like it are different items."""
    if isinstance(item, bool) or not isinstance(item, int | str):
        raise MalformedInput("neither a number nor a name", where="pool", got=type(item).__name__)
    if isinstance(item, str):
        return lp(b"n") + lp(name_bytes(item, where="pool"))
    if not 0 <= item < 1 << 64:
        raise MalformedInput("out of range", where="pool", got=item, expected="0 to 2^64 - 1")
    return lp(b"u") + lp(item.to_bytes(8, "big"))
