"""The linear sketch ``S = A W B``: inner products of weights that need not be at hand any more.

A (r x m) and B (n x s) start as fixed random signs, drawn by key and row or column index alone: equal shapes share
projections, so renamed tensors can be matched. Products of signs stream at memory speed where scatter-add does not.
The small result is then orthonormalised by Gram-Schmidt on A A^T and B^T B, which costs nothing and makes S an exact
random projection on both sides: ``E <S1, S2> = <W1, W2>``, the sketch of iid noise is iid again, and a matrix with no
more than r rows and s columns loses nothing. Gram-Schmidt works row after row, so a smaller sketch is the leading
block of a larger one, up to scale. S(child) - S(parent) is the sketch of the delta.

Relative deltas of 1e-5 must survive: rows are multiplied in float32 and summed over row blocks in float64; narrow
matrices, whose frames are badly conditioned, in float64 throughout.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fingerprint.sketch import keyed

SIZES = (8, 12, 16, 20, 24, 32, 48, 64)
"""Sides a sketch may have; 64 is what one keyed word can feed."""
VECTOR_SIZE = 64
PRECISE_BELOW = 8
"""Matrices with fewer rows or columns than this many sketch sides are multiplied in float64."""
DEPENDENT_BELOW = 1e-4
"""Squared distance to earlier sign vectors, over the squared length, from which a vector counts as a new direction."""
CACHED_COLUMNS = 1 << 16
"""Longest row whose signs are kept in memory; longer ones are made chunk by chunk."""


@dataclass(frozen=True)
class Frame:
    """How sign vectors become orthonormal.

    Attributes:
        transform: float64 (size, size), lower triangular; rows that depend on earlier ones are zero.
        rank: Number of rows that are not.
    """

    transform: np.ndarray
    rank: int


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
        self._other: Projection | None = None
        self._frames: dict[tuple[str, int], Frame] = {}

    def of_size(self, size: int) -> Projection:
        """The same signs with more or fewer columns (for vectors), shared by whoever asks."""
        with self._lock:
            if self._other is None or self._other.size != size:
                self._other = Projection(self.key, size)
            return self._other

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

    def frame(self, side: str, length: int) -> Frame:
        """The Gram-Schmidt transform of the signs of one side ("row" or "column") for a given length."""
        with self._lock:
            known = self._frames.get((side, length))
        if known is None:
            known = _orthonormal(self._gram(side, length))
            with self._lock:
                self._frames[side, length] = known
        return known

    def _gram(self, side: str, length: int) -> np.ndarray:
        """Inner products of the sign vectors, float64 (size, size); exact, since counts stay far below 2^53."""
        gram = np.zeros((self.size, self.size))
        for start in range(0, length, CACHED_COLUMNS):
            signs = self._draw(side, start, min(length, start + CACHED_COLUMNS)).astype(np.float32)
            gram += signs.T @ signs
        return gram

    def _draw(self, side: str, start: int, stop: int) -> np.ndarray:
        return keyed.signs(keyed.words(self.key, f"linear/{side}", start, stop), self.size)


class MatrixSketch:
    """Accumulates ``A W B`` over consecutive row blocks of one matrix.

    Args:
        projection: The signs.
        shape: Rows and columns of the matrix.
    """

    def __init__(self, projection: Projection, shape: tuple[int, int]) -> None:
        self._projection, self._shape = projection, shape
        self._precise = min(shape) < PRECISE_BELOW * projection.size
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
            part, signs = block[:, start:stop], self._projection.columns(start, stop)
            product += (
                torch.mm(part.double(), signs.double()).numpy() if self._precise else torch.mm(part, signs).numpy()
            )
        left = self._projection.rows(self._row, self._row + count).astype(np.float64)
        self._sum += left.T @ product
        self._row += count

    @property
    def value(self) -> np.ndarray:
        """The sketch of all rows taken, float32 (size, size)."""
        left = self._projection.frame("row", self._shape[0])
        right = self._projection.frame("column", self._shape[1])
        scale = _scale(self._shape[0], left.rank) * _scale(self._shape[1], right.rank)
        return np.asarray(scale * (left.transform @ self._sum @ right.transform.T), dtype=np.float32)


def sketch_matrix(matrix: torch.Tensor, projection: Projection, *, rows: int = 128) -> np.ndarray:
    """Sketch of a matrix in memory; the same as streaming it in blocks of ``rows``."""
    sketch = MatrixSketch(projection, (matrix.shape[0], matrix.shape[1]))
    for start in range(0, matrix.shape[0], rows):
        sketch.update(matrix[start : start + rows].to(torch.float32))
    return sketch.value


def sketch_vector(vector: np.ndarray, projection: Projection) -> np.ndarray:
    """Linear sketch of a vector, float32 (size,), scaled so that inner products are unbiased.

    Args:
        vector: float (n,).
        projection: The signs.
    """
    total = np.zeros(projection.size)
    for start in range(0, vector.size, CACHED_COLUMNS):
        part = vector[start : start + CACHED_COLUMNS].astype(np.float64)
        total += part @ projection.columns(start, start + part.size).numpy().astype(np.float64)
    frame = projection.frame("column", vector.size)
    return np.asarray(_scale(vector.size, frame.rank) * (frame.transform @ total), dtype=np.float32)


def common(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The common leading block of two sketches, each rescaled to stay unbiased, float64."""
    shape = tuple(min(a, b) for a, b in zip(first.shape, second.shape, strict=True))
    return shrink(first, shape), shrink(second, shape)


def shrink(sketch: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The sketch that a smaller budget would have made, float64 of ``shape``.

    Rows or columns of zeros are directions that the matrix was too small to have; they do not count.
    """
    block = sketch[tuple(slice(0, n) for n in shape)].astype(np.float64)
    ratio = 1.0
    for axis in range(sketch.ndim):
        others = tuple(a for a in range(sketch.ndim) if a != axis)
        used = np.flatnonzero(np.any(sketch != 0, axis=others) if others else sketch != 0)
        ratio *= used.size / max(1, int(np.count_nonzero(used < shape[axis])))
    return np.asarray(block * np.sqrt(ratio)) if ratio > 0 else block


def size_for(matrices: int, budget: int) -> int:
    """Largest side whose float32 sketches of ``matrices`` matrices fit into ``budget`` bytes (never below SIZES[0])."""
    fitting = [size for size in SIZES if 4 * size * size * max(1, matrices) <= budget]
    return fitting[-1] if fitting else SIZES[0]


def _orthonormal(gram: np.ndarray) -> Frame:
    """Gram-Schmidt on vectors that are known by their inner products alone, twice for stability."""
    size = gram.shape[0]
    transform, rank = np.zeros((size, size)), 0
    for j in range(size):
        row = np.zeros(size)
        row[j] = 1.0
        for _ in range(2):
            row -= (transform @ (gram @ row)) @ transform
        length = float(row @ gram @ row)
        if length > DEPENDENT_BELOW * max(gram[j, j], 1.0):
            transform[j] = row / np.sqrt(length)
            rank += 1
    return Frame(transform, rank)


def _scale(length: int, rank: int) -> float:
    """What makes a projection onto ``rank`` random orthonormal directions out of ``length`` unbiased."""
    return float(np.sqrt(length / rank)) if rank else 0.0
