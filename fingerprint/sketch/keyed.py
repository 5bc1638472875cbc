"""Keyed randomness: what a sketch looks at must not be guessable by whoever made the weights.

Every random bit is SHAKE-256 (FIPS 202) of ``key | domain | chunk``: word ``i`` of a domain depends on the key, the
domain and ``i`` alone. So a longer tensor shares the words of a shorter one, and a sketch never depends on names,
roles, thread counts or the order in which tensors were read.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np

from fingerprint.content import length_prefixed

CHUNK = 1 << 16
"""Words per SHAKE call: makes any range reachable without making everything before it."""

DEFAULT_KEY = b"model-forensics public sketch key 1"
"""Public: fingerprints of different people compare. A service that must not be gamed sets its own."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def key_id(key: bytes) -> str:
    """First 8 hex digits of SHA-256 of the key: tells keys apart without showing them."""
    return hashlib.sha256(key).hexdigest()[:8]


def words(key: bytes, domain: str, start: int, stop: int) -> np.ndarray:
    """64-bit words ``start`` .. ``stop`` of a keyed domain.

    Returns:
        uint64 array (stop - start,).
    """
    parts = []
    for chunk in range(start // CHUNK, -(-stop // CHUNK)):
        low, high = max(start - chunk * CHUNK, 0), min(stop - chunk * CHUNK, CHUNK)
        seed = length_prefixed(key) + length_prefixed(domain.encode()) + chunk.to_bytes(8, "little")
        parts.append(np.frombuffer(hashlib.shake_256(seed).digest(8 * high), dtype="<u8")[low:])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def string_words(key: bytes, domain: str, strings: tuple[str, ...]) -> np.ndarray:
    """One 64-bit word per string, from keyed BLAKE2b; equal strings get equal words.

    Returns:
        uint64 array (len(strings),).
    """
    base = hashlib.blake2b(length_prefixed(key) + length_prefixed(domain.encode()), digest_size=8)
    out = bytearray()
    for text in strings:
        state = base.copy()
        state.update(text.encode("utf-8", "surrogatepass"))
        out += state.digest()
    return np.frombuffer(bytes(out), dtype="<u8")


def mix(values: np.ndarray, salt: int) -> np.ndarray:
    """SplitMix64's finaliser over ``values + salt * golden``: more words from words that are already secret.

    Args:
        values: uint64 array, any shape.
        salt: Which word to make.
    """
    with np.errstate(over="ignore"):
        z = values + np.uint64(salt + 1) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def signs(words64: np.ndarray, columns: int) -> np.ndarray:
    """Random signs out of 64-bit words: column ``j`` is bit ``j``.

    Args:
        words64: uint64 array (n,).
        columns: At most 64.

    Returns:
        int8 array (n, columns) of -1 and 1; fewer columns are the leading ones of more.
    """
    bits = np.unpackbits(words64.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    return (bits[:, :columns].astype(np.int8) << 1) - 1


@functools.lru_cache(maxsize=256)
def sample(key: bytes, domain: str, size: int, count: int) -> np.ndarray:
    """``count`` of ``size`` indices by smallest keyed word, in ascending order.

    Returns:
        int64 array (min(count, size),).
    """
    if count >= size:
        chosen = np.arange(size, dtype=np.int64)
    else:
        chosen = np.sort(np.argpartition(words(key, domain, 0, size), count)[:count]).astype(np.int64)
    return chosen
