"""Where the largest weights lie: a set of indices per matrix, and its MinHash.

With q the chance that an index stays among the top k, two models share J = q / (2 - q): .98 at 1% noise, .80 at 10%,
.005 for unrelated ones. The MinHash (datasketch 2, scheme pinned, since a restored index would re-learn it) makes the
sets searchable in bands.
"""

from __future__ import annotations

import numpy as np
import torch
from datasketch import MinHash

from fingerprint.sketch import keyed

SCHEME = "affine32"
PERMUTATIONS = 64
SEED = 1
MIN_K, MAX_K, FRACTION = 64, 2048, 1 / 256
_SLACK = 8
"""Candidates are cut back to k whenever they exceed this many times k."""


def size_of(numel: int) -> int:
    """How many indices are kept of a matrix with ``numel`` entries."""
    return min(numel, max(MIN_K, min(MAX_K, int(numel * FRACTION))))


class TopIndices:
    """Exact top k by magnitude over a stream of row blocks, ties broken by a keyed hash of the index.

    Quantised weights tie by the thousand, and breaking ties by position would make unrelated matrices agree.
    """

    def __init__(self, shape: tuple[int, int], key: bytes) -> None:
        self._k = size_of(shape[0] * shape[1])
        self._width = shape[1]
        self._salt = int(keyed.words(key, "topk/tie", 0, 1)[0] >> np.uint64(1))
        self._values = np.empty(0, dtype=np.float32)
        self._indices = np.empty(0, dtype=np.int64)
        self._floor = -1.0
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows, float32 (rows, n)."""
        magnitude = block.abs().reshape(-1)
        if self._floor < 0 and magnitude.numel() > self._k:
            sample = magnitude[:: max(1, magnitude.numel() // 65536)]
            rank = min(sample.numel(), max(1, int(4 * self._k * sample.numel() / magnitude.numel())))
            floor = float(torch.topk(sample, rank).values[-1])
        else:
            floor = self._floor
        found = torch.nonzero(magnitude >= floor).reshape(-1)
        if self._floor < 0 and found.numel() < self._k:
            found = torch.arange(magnitude.numel())
        self._values = np.concatenate([self._values, magnitude[found].numpy()])
        self._indices = np.concatenate([self._indices, found.numpy() + self._row * self._width])
        self._row += block.shape[0]
        if self._floor < 0 or self._values.size > _SLACK * self._k:
            self._cut()

    def _cut(self) -> None:
        if self._values.size < self._k:
            return
        ties = keyed.mix(self._indices.astype(np.uint64), self._salt & 0xFFFF_FFFF)
        order = np.lexsort((ties, -self._values))[: self._k]
        self._values, self._indices = self._values[order], self._indices[order]
        self._floor = float(self._values[-1]) if self._k else 0.0

    @property
    def indices(self) -> np.ndarray:
        """Flat indices of the k largest magnitudes, ascending, int64 (k,)."""
        self._cut()
        return np.sort(self._indices)


def minhash(indices: np.ndarray) -> np.ndarray:
    """MinHash of a set of non-negative integers, uint32 (64,).

    Source: datasketch 2, scheme ``affine32`` (MurmurHash3 finaliser, then a*h+b mod 2^32 with a odd).
    """
    sketch = MinHash(num_perm=PERMUTATIONS, seed=SEED, scheme=SCHEME, hashfunc=_identity)
    if indices.size:
        sketch.update_batch((indices & 0xFFFF_FFFF).tolist())
    return np.asarray(sketch.hashvalues, dtype=np.uint32)


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    """Estimated Jaccard similarity of the sets behind two MinHashes."""
    return float(np.mean(first == second))


def _identity(value: int) -> int:
    return value
