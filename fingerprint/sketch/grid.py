"""A keyed sub-grid of stored values: the part of a matrix on which the sign-flip null stays exact.

A projection mixes entries, so noise that is stronger in some rows, or that hits few entries, comes out of it
correlated and would look like learning. Values taken as they are do not mix. Rows and columns are drawn by key and
side length alone, so matrices of one shape share them, and matrices that read or write the same residual stream share
its coordinates; of two lengths that differ a little (a padded vocabulary) most indices are shared.
"""

from __future__ import annotations

import threading

import numpy as np
import torch

from fingerprint.sketch import keyed

SIDES = (16, 20, 24, 32, 48, 64)
"""Sides a grid may have."""

DOMAIN = "grid"


def side(matrices: int, budget: int) -> int:
    """The largest side that ``budget`` bytes allow for ``matrices`` grids of two bytes a value."""
    each = budget // (2 * max(1, matrices))
    return max([size for size in SIDES if size * size <= each], default=SIDES[0])


class Grids:
    """Which rows and columns are kept, by side length; shared by all tensors and threads of a scan.

    Args:
        key: Sketch key.
        size: Rows and columns of a grid.
    """

    def __init__(self, key: bytes, size: int) -> None:
        self._key, self.size = key, size
        self._lock = threading.Lock()
        self._chosen: dict[int, np.ndarray] = {}

    def indices(self, length: int) -> np.ndarray:
        """Chosen indices out of ``length``, int64, ascending."""
        with self._lock:
            known = self._chosen.get(length)
        if known is None:
            known = keyed.sample(self._key, DOMAIN, length, self.size)
            with self._lock:
                self._chosen[length] = known
        return known


class GridPicker:
    """Collects the grid of one matrix from consecutive row blocks.

    Args:
        grids: Which rows and columns.
        shape: Rows and columns of the matrix.
    """

    def __init__(self, grids: Grids, shape: tuple[int, int]) -> None:
        self._rows, self._columns = grids.indices(shape[0]), torch.from_numpy(grids.indices(shape[1]))
        self._values = np.zeros((self._rows.size, self._columns.numel()), dtype=np.float32)
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows, float32 (rows, n)."""
        low, high = np.searchsorted(self._rows, (self._row, self._row + block.shape[0]))
        if high > low:
            picked = block[torch.from_numpy(self._rows[low:high] - self._row)]
            self._values[low:high] = picked[:, self._columns].numpy()
        self._row += block.shape[0]

    @property
    def columns(self) -> torch.Tensor:
        """Chosen columns, int64."""
        return self._columns

    @property
    def value(self) -> np.ndarray:
        """float32 (r, s)."""
        return self._values


def is_bfloat16(values: np.ndarray) -> bool:
    """Whether every value is exactly a bfloat16: then two bytes a value lose nothing."""
    return not np.any(np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF))


def to_codes(values: np.ndarray) -> np.ndarray:
    """bfloat16 codes of values that are exact bfloat16, uint16."""
    return (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def from_codes(codes: np.ndarray) -> np.ndarray:
    """Values of bfloat16 codes, float32."""
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def shared(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the indices that two ascending index sets share, in each of them, int64."""
    _, i, j = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return i, j
