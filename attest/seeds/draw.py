"""Unbiased numbers from one item key, the same on every platform and interpreter.

The stream of a key k is HMAC-SHA256 in counter mode:

    block_j = HMAC-SHA256(k, lp("integrity/seed/v1/draw") | u64be j)        j = 0, 1, 2, ...
    stream  = block_0 | block_1 | block_2 | ...

Bytes are taken from the stream in order, each once; nothing is kept back between calls but whole bytes.

- ``bits(n)``: the next ceil(n/8) bytes as a big-endian integer, its n low bits. n = 0 takes no byte and gives 0.
- ``below(n)``: with b = bit length of n - 1, values ``bits(b)`` until one is below n. n = 1 takes no byte. There is
  no upper limit at 32 or 64 bits and no modulo: every value is exactly equally likely.
- ``between(a, b)``: a + ``below(b - a + 1)``; both ends are included.
- ``choice(seq)``: ``seq[below(len(seq))]``.
- ``shuffle(seq)``: a new list; for i = len - 1 down to 1, with j = ``below(i + 1)``, entries i and j change places
  (Fisher and Yates, as in Knuth's Algorithm P).
- ``sample(seq, k)``: a new list; for i = 0 to k - 1, with j = i + ``below(len - i)``, entries i and j of a copy change
  places; the first k entries.
- ``fork(label)``: an independent stream with the key HMAC-SHA256(k, lp("integrity/seed/v1/fork") | lp(label)). It
  takes nothing from this one, so parts of a task do not shift each other.

Golden values: ``tests/data/attest/draw.json``.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final, TypeVar

from attest.errors import InputTooLarge, MalformedInput

from .derive import SIZE, lp, name_bytes

MAX_BITS: Final = 1 << 20
"""Widest single number; a bound on memory, not on quality."""

_STREAM: Final = lp(b"integrity/seed/v1/draw")
_FORK: Final = lp(b"integrity/seed/v1/fork")
Item = TypeVar("Item")


class Draw:
    """A deterministic stream of choices from one 32-byte key; the byte-for-byte rule is the module's docstring.

    Args:
        key: k_i of an item (``attest.seeds.derive.item_key``).

    Raises:
        MalformedInput: The key is not 32 bytes.
    """

    __slots__ = ("_buffer", "_counter", "_key")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != SIZE:
            raise MalformedInput("wrong length", where="item key", expected=f"{SIZE} bytes")
        self._key, self._counter, self._buffer = key, 0, b""

    def __repr__(self) -> str:
        return "Draw(...)"  # a key that is still hidden must not reach a log

    def bits(self, n: int) -> int:
        """A number of ``n`` bits: 0 to 2**n - 1, all equally likely.

        Raises:
            InputTooLarge: ``n`` is above ``MAX_BITS``.
            MalformedInput: ``n`` is negative or no integer.
        """
        _integer(n, 0, where="number of bits")
        if n > MAX_BITS:
            raise InputTooLarge("number is too wide", got=n, expected=f"at most {MAX_BITS} bits")
        return int.from_bytes(self._take((n + 7) // 8), "big") & ((1 << n) - 1)

    def below(self, n: int) -> int:
        """A number from 0 to ``n`` - 1, all equally likely, by rejection over the full width of ``n``.

        Raises:
            MalformedInput: ``n`` is below 1 or no integer.
        """
        _integer(n, 1, where="bound")
        width = (n - 1).bit_length()
        while True:
            found = self.bits(width)
            if found < n:
                return found

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        _integer(high - low, 0, where="range")
        return low + self.below(high - low + 1)

    def choice(self, seq: Sequence[Item]) -> Item:
        """One entry of a non-empty sequence."""
        return seq[self.below(len(seq))]

    def shuffle(self, seq: Sequence[Item]) -> list[Item]:
        """The entries in a random order, as a new list."""
        found = list(seq)
        for i in range(len(found) - 1, 0, -1):
            j = self.below(i + 1)
            found[i], found[j] = found[j], found[i]
        return found

    def sample(self, seq: Sequence[Item], k: int) -> list[Item]:
        """``k`` distinct entries in a random order, as a new list.

        Raises:
            MalformedInput: ``k`` is negative or more than there are.
        """
        found = list(seq)
        _integer(k, 0, where="sample size")
        _integer(len(found) - k, 0, where="entries beyond the sample")
        for i in range(k):
            j = i + self.below(len(found) - i)
            found[i], found[j] = found[j], found[i]
        return found[:k]

    def fork(self, label: str) -> Draw:
        """An independent stream named ``label``; the same whenever it is asked for."""
        return Draw(hmac.digest(self._key, _FORK + lp(name_bytes(label, where="fork")), "sha256"))

    def _take(self, count: int) -> bytes:
        pieces, held = [self._buffer], len(self._buffer)
        while held < count:
            pieces.append(hmac.digest(self._key, _STREAM + self._counter.to_bytes(8, "big"), "sha256"))
            self._counter += 1
            held += SIZE
        whole = b"".join(pieces)
        self._buffer = whole[count:]
        return whole[:count]


def _integer(value: int, low: int, *, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise MalformedInput("out of range", where=where, got=value, expected=f"an integer of at least {low}")
