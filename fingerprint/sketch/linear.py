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
FOLD, FOLD_FROM = 8, 1024
"""Rows added before they are multiplied, and the height from which that leaves far more groups than sketch rows."""
VECTOR_SIZE = 64
PRECISE_BELOW = 8
"""Matrices with fewer rows or columns than this many sketch sides are multiplied in float64."""
DEPENDENT_BELOW = 1e-4
"""Squared distance to earlier sign vectors, over the squared length, from which a vector counts as a new direction."""
CHUNK = 1 << 16
"""Columns multiplied at a time; also keeps counts exact in float32."""
CACHED = 1 << 18
"""Entries of the sign vectors kept in memory; a hostile shape cannot make them longer."""


@dataclass(frozen=True)
class Frame:
    """How sign vectors become orthonormal.

    Attributes:
        transform: float64 (size, size), lower triangular; rows that depend on earlier ones are zero.
        rank: Number of rows that are not.
    """

    transform: np.ndarray
    rank: int


class Signs:
    """The sign vectors of one side ("row" or "column"), shared by all tensors and threads of a scan.

    Args:
        key: Secret key.
        side: Domain the signs are drawn in.
        count: Number of vectors, at most 64.
    """

    def __init__(self, key: bytes, side: str, count: int) -> None:
        self.count = count
        self._key, self._side = key, side
        self._lock = threading.Lock()
        self._cached = torch.empty(0, count)
        self._frames: dict[tuple[int, int], Frame] = {}

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Entries ``start`` .. ``stop`` of every vector, float32 (stop - start, count)."""
        if stop > CACHED:
            return self._draw(start, stop)
        if stop > self._cached.shape[0]:
            with self._lock:
                if stop > self._cached.shape[0]:
                    self._cached = self._draw(0, min(CACHED, 1 << (stop - 1).bit_length()))
        return self._cached[start:stop]

    def frame(self, length: int, *, fold: int = 1) -> Frame:
        """The Gram-Schmidt transform of the vectors' first ``length`` entries, each repeated ``fold`` times."""
        with self._lock:
            known = self._frames.get((length, fold))
        if known is None:
            known = _orthonormal(self._gram(length, fold))
            with self._lock:
                self._frames[length, fold] = known
        return known

    def _gram(self, length: int, fold: int) -> np.ndarray:
        """Inner products, float64 (count, count); exact, since counts stay far below 2^24 in a part."""
        full, rest = divmod(length, fold)
        gram = np.zeros((self.count, self.count))
        for start in range(0, full, CHUNK):
            signs = self.part(start, min(full, start + CHUNK))
            gram += fold * (signs.T @ signs).numpy()
        last = self.part(full, full + 1)
        return np.asarray(gram + rest * (last.T @ last).numpy())

    def _draw(self, start: int, stop: int) -> torch.Tensor:
        words = keyed.words(self._key, f"linear/{self._side}", start, stop)
        return torch.from_numpy(keyed.signs(words, self.count).astype(np.float32))


class Projection:
    """A and B of one key.

    Args:
        key: Secret key.
        rows: Rows of the sketches.
        columns: Columns of the sketches; as many as rows when not given.
    """

    def __init__(self, key: bytes, rows: int, columns: int | None = None) -> None:
        self.left = Signs(key, "row", rows)
        self.folding = Signs(key, "fold", 1)
        self.right = Signs(key, "column", rows if columns is None else columns)
        self.vector = Signs(key, "column", VECTOR_SIZE)


class MatrixSketch:
    """Accumulates ``A W B`` over consecutive row blocks of one matrix.

    Tall matrices are folded first: FOLD adjacent rows are added with random signs, and rows of A hold one sign per
    group times the row's own. That is a sign matrix like any other, at an eighth of the cost.

    Args:
        projection: The signs.
        shape: Rows and columns of the matrix.
        gain: float32 (columns,) that the matrix is multiplied by; taken into B, where it costs nothing.
    """

    def __init__(self, projection: Projection, shape: tuple[int, int], *, gain: torch.Tensor | None = None) -> None:
        self._projection, self._shape, self._gain = projection, shape, gain
        self._fold = FOLD if shape[0] >= FOLD_FROM else 1
        precise = min(shape) < PRECISE_BELOW * max(projection.left.count, projection.right.count)
        self._dtype = torch.float64 if precise else torch.float32
        self._sum = np.zeros((projection.left.count, projection.right.count))
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows.

        Args:
            block: float32 (rows, n).
        """
        rows = block.shape[0]
        whole = 0 if self._row % self._fold else rows // self._fold * self._fold
        if self._fold > 1 and whole:
            signs = self._projection.folding.part(self._row, self._row + whole).view(-1, 1, self._fold)
            folded = torch.bmm(signs, block[:whole].view(-1, self._fold, block.shape[1])).squeeze(1)
            first = self._row // self._fold
            self._add(self._projection.left.part(first, first + folded.shape[0]), folded)
        else:
            whole = 0
        if whole < rows:
            self._add(self._signs(self._row + whole, self._row + rows), block[whole:])
        self._row += rows

    def _signs(self, start: int, stop: int) -> torch.Tensor:
        """Entries of A for rows that are not folded: the group's sign times the row's."""
        if self._fold == 1:
            return self._projection.left.part(start, stop)
        groups = torch.arange(start, stop) // self._fold
        first = int(groups[0])
        signs = self._projection.left.part(first, int(groups[-1]) + 1)[groups - first]
        return signs * self._projection.folding.part(start, stop)

    def _add(self, left: torch.Tensor, block: torch.Tensor) -> None:
        for start in range(0, block.shape[1], CHUNK):
            part = block[:, start : start + CHUNK].to(self._dtype)
            right = self._projection.right.part(start, start + part.shape[1]).to(self._dtype)
            if self._gain is not None:
                right = right * self._gain[start : start + part.shape[1], None]
            self._sum += torch.mm(left.to(self._dtype).T, torch.mm(part, right)).numpy()

    @property
    def value(self) -> np.ndarray:
        """The sketch of all rows taken, float32 (r, s)."""
        left = self._projection.left.frame(self._shape[0], fold=self._fold)
        right = self._projection.right.frame(self._shape[1])
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
    signs, total = projection.vector, np.zeros(projection.vector.count)
    for start in range(0, vector.size, CHUNK):
        part = vector[start : start + CHUNK].astype(np.float64)
        total += part @ signs.part(start, start + part.size).numpy().astype(np.float64)
    frame = signs.frame(vector.size)
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
    return max([size for size in SIZES if 4 * size * size * max(1, matrices) <= budget], default=SIZES[0])


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
