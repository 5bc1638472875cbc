"""The linear sketch ``S = A W B``: inner products of weights that need not be at hand any more.

A (r x m) and B (n x s) hold fixed random signs, so ``E <S1, S2> = <W1, W2>`` once S is divided by sqrt(r s): norms,
cosines and least squares over known models all follow, and S(child) - S(parent) is the sketch of the delta. Products
of signs stream at memory speed where scatter-add does not. Signs depend on the key and on the row or column index
alone: equal shapes share projections (renamed tensors can be matched), and a smaller sketch is the leading block of a
larger one, up to scale.

Relative deltas of 1e-5 must survive: rows are multiplied in float32 and summed over row blocks in float64.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import torch

from fingerprint.sketch import keyed

SIZES = (8, 12, 16, 20, 24, 32, 48, 64)
"""Sides a sketch may have; 64 is what one keyed word can feed."""
VECTOR_SIZE = 64
CACHED_COLUMNS = 1 << 16
"""Longest row whose signs are kept in memory; longer ones are made chunk by chunk."""


class Projection:
    """The signs of one key, shared by all tensors and threads of a scan.

    Args:
        key: Secret key.
        size: Side of the sketches, one of SIZES.
    """

    def __init__(self, key: bytes, size: int) -> None:
        self.key, self.size = key, size
        self._lock = threading.Lock()
        self._columns: torch.Tensor = torch.empty(0, size)
        self._rows: np.ndarray = np.empty((0, size), dtype=np.int8)

    def columns(self, start: int, stop: int) -> torch.Tensor:
        """Rows ``start`` .. ``stop`` of B, float32 (stop - start, size)."""
        if stop > CACHED_COLUMNS:
            return torch.from_numpy(self._draw("column", start, stop).astype(np.float32))
        if stop > self._columns.shape[0]:
            with self._lock:
                if stop > self._columns.shape[0]:
                    grown = min(CACHED_COLUMNS, 1 << (stop - 1).bit_length())
                    self._columns = torch.from_numpy(self._draw("column", 0, grown).astype(np.float32))
        return self._columns[start:stop]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Columns ``start`` .. ``stop`` of A, transposed: int8 (stop - start, size)."""
        if stop > self._rows.shape[0]:
            with self._lock:
                if stop > self._rows.shape[0]:
                    grown = 1 << (stop - 1).bit_length()
                    self._rows = self._draw("row", 0, grown)
        return self._rows[start:stop]

    def _draw(self, side: str, start: int, stop: int) -> np.ndarray:
        return keyed.signs(keyed.words(self.key, f"linear/{side}", start, stop), self.size)


class MatrixSketch:
    """Accumulates ``A W B`` over consecutive row blocks of one matrix."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._sum = np.zeros((projection.size, projection.size))
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows.

        Args:
            block: float32 (rows, n).
        """
        count, width = block.shape
        product = np.zeros((count, self._projection.size))
        for start in range(0, width, CACHED_COLUMNS):
            stop = min(width, start + CACHED_COLUMNS)
            product += torch.mm(block[:, start:stop], self._projection.columns(start, stop)).numpy()
        left = self._projection.rows(self._row, self._row + count).astype(np.float64)
        self._sum += left.T @ product
        self._row += count

    @property
    def value(self) -> np.ndarray:
        """The sketch so far, float32 (size, size), scaled so that inner products are unbiased."""
        return (self._sum / self._projection.size).astype(np.float32)


def sketch_matrix(matrix: torch.Tensor, projection: Projection, *, rows: int = 128) -> np.ndarray:
    """Sketch of a matrix in memory; the same as streaming it in blocks of ``rows``."""
    sketch = MatrixSketch(projection)
    for start in range(0, matrix.shape[0], rows):
        sketch.update(matrix[start : start + rows].to(torch.float32))
    return sketch.value


def sketch_vector(vector: np.ndarray, key: bytes, size: int = VECTOR_SIZE) -> np.ndarray:
    """Linear sketch of a vector, float32 (size,), scaled so that inner products are unbiased.

    Args:
        vector: float (n,).
        key: Secret key.
        size: At most 64.
    """
    signs = keyed.signs(keyed.words(key, "linear/column", 0, vector.shape[0]), size)
    return np.asarray(vector.astype(np.float64) @ signs / np.sqrt(size), dtype=np.float32)


def common(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The common leading block of two sketches, each rescaled to stay unbiased, float64."""
    shape = tuple(min(a, b) for a, b in zip(first.shape, second.shape, strict=True))
    return shrink(first, shape), shrink(second, shape)


def shrink(sketch: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The sketch that a smaller budget would have made, float64 of ``shape``."""
    block = sketch[tuple(slice(0, n) for n in shape)].astype(np.float64)
    ratio = float(np.prod(sketch.shape)) / max(1.0, float(np.prod(shape)))
    return np.asarray(block * np.sqrt(ratio))


def size_for(matrices: int, budget: int) -> int:
    """Largest side whose float32 sketches of ``matrices`` matrices fit into ``budget`` bytes (never below SIZES[0])."""
    fitting = [size for size in SIZES if 4 * size * size * max(1, matrices) <= budget]
    return fitting[-1] if fitting else SIZES[0]
