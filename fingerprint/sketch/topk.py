"""Where the largest weights lie: a set of indices per matrix, and its MinHash.

With q the chance that an index stays among the top k, two models share J = q / (2 - q): .98 at 1% noise, .80 at 10%,
.005 for unrelated ones. The MinHash (datasketch 2, scheme pinned, since a restored index would re-learn it) makes the
sets searchable in bands.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from datasketch import MinHash

from fingerprint.sketch import keyed

SCHEME = "affine32"
PERMUTATIONS = 64
SEED = 1
MIN_K, MAX_K, FRACTION = 64, 2048, 1 / 256


def size_of(numel: int) -> int:
    """How many indices are kept of ``numel`` entries."""
    return min(numel, max(MIN_K, min(MAX_K, int(numel * FRACTION))))


def top_indices(sample: np.ndarray, rows: np.ndarray, key: bytes) -> np.ndarray:
    """Flat indices, in the whole matrix, of the largest magnitudes among sampled rows.

    Ties are broken by a keyed hash of the index: quantised weights tie by the thousand, and breaking ties by position
    would make unrelated matrices agree.

    Args:
        sample: float32 (len(rows), n) sampled rows.
        rows: int64 their row numbers, chosen without looking at the matrix.
        key: Sketch key.

    Returns:
        int64 (k,), ascending.
    """
    k = size_of(sample.size)
    if not k:
        return np.empty(0, dtype=np.int64)
    magnitude = torch.from_numpy(np.ascontiguousarray(sample)).abs().reshape(-1)
    floor = np.partition(magnitude.numpy(), magnitude.numel() - k)[magnitude.numel() - k]
    found = np.flatnonzero(magnitude.numpy() >= floor)
    width = sample.shape[1]
    flat = rows[found // width] * width + found % width
    salt = int(keyed.words(key, "topk/tie", 0, 1)[0] & np.uint64(0xFFFF_FFFF))
    order = np.lexsort((keyed.mix(flat.astype(np.uint64), salt), -magnitude.numpy()[found]))[:k]
    return np.sort(flat[order])


def minhash(indices: np.ndarray) -> np.ndarray:
    """MinHash of a set of non-negative integers, uint32 (64,).

    Source: datasketch 2, scheme ``affine32`` (MurmurHash3 finaliser, then a*h+b mod 2^32 with a odd).
    """
    drawn = _permutations()
    sketch = MinHash(num_perm=PERMUTATIONS, seed=SEED, scheme=SCHEME, hashfunc=_identity, permutations=drawn)
    if indices.size:
        sketch.update_batch((indices & 0xFFFF_FFFF).tolist())
    return np.asarray(sketch.hashvalues, dtype=np.uint32)


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    """Estimated Jaccard similarity of the sets behind two MinHashes."""
    return float(np.mean(first == second))


@functools.cache
def _permutations() -> tuple[np.ndarray, np.ndarray]:
    """The permutations datasketch draws for SEED; drawing them takes longer than using them."""
    first, second = MinHash(num_perm=PERMUTATIONS, seed=SEED, scheme=SCHEME).permutations
    return first, second


def _identity(value: int) -> int:
    return value
