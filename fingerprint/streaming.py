"""One pass over a slot: digests, sketch and statistics, while the block is still in cache.

``SlotReader.stream`` yields the same float32 blocks on to whoever needs them (invariants), so that no byte is read
twice where a slot is a stored tensor as it lies. Fused and transposed tensors are hashed once and read again by slot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from fingerprint.architecture.interface import Slot, View
from fingerprint.architecture.reading import read_blocks
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.content import TensorHasher, dtype_name, multiset_digest, wants_multiset
from fingerprint.fingerprint import SlotSketch, TensorEntry
from fingerprint.plan import BLOCK_ELEMENTS, MAX_ROWS, MAX_WIDTH, WIDE_ROW, Plan, block_rows, numel
from fingerprint.sketch import grid, keyed, linear, statistics, topk


@dataclass
class Findings:
    """What one job has found so far."""

    tensors: dict[str, TensorEntry] = field(default_factory=dict)
    slots: dict[Slot, SlotSketch] = field(default_factory=dict)
    vectors: dict[Slot, np.ndarray] = field(default_factory=dict)


class Scratch:
    """One float32 buffer that is used again and again: fresh pages for every block would cost more than the sums."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0)

    def like(self, block: torch.Tensor) -> torch.Tensor:
        """A float32 tensor of the block's shape; whatever was taken before is overwritten."""
        if self._buffer.numel() < block.numel():
            self._buffer = torch.empty(block.numel())
        return self._buffer[: block.numel()].view(block.shape)


@dataclass(frozen=True)
class Shared:
    """What all jobs of one scan share.

    Attributes:
        key: Sketch key.
        projection: Signs of the linear sketches.
        grids: Rows and columns that are kept as they are.
        gains: float32 (d,) gain of the norm before each matrix that reads the stream through one.
    """

    key: bytes
    projection: linear.Projection
    grids: grid.Grids
    gains: Mapping[Slot, torch.Tensor] = field(default_factory=dict)


class SlotReader:
    """Reads the slots of one job; not shared between threads.

    Args:
        checkpoint: Where tensors are.
        plan: Sizes.
        shared: Signs, grids and gains, shared by all jobs.
        owned: Stored tensors this job must digest.
    """

    def __init__(self, checkpoint: Checkpoint, plan: Plan, shared: Shared, owned: frozenset[str]) -> None:
        self.checkpoint, self._plan, self._shared = checkpoint, plan, shared
        self._owned, self._scratch = owned, Scratch()
        self.findings = Findings()

    def digest(self, name: str) -> None:
        """Digest a stored tensor by itself, unless that was done or is another job's."""
        if name in self._owned and name not in self.findings.tensors:
            info = self.checkpoint.tensors[name]
            rows = block_rows(info.numel // max(1, info.rows))
            for _ in self._hashed(name, self.checkpoint.blocks(name, rows)):
                pass

    def stream(self, slot: Slot, view: View, *, multiple: int = 1) -> Iterator[torch.Tensor]:
        """Sketch a slot, yielding each block as float32 (rows, n); valid until the next is taken.

        Rows longer than MAX_WIDTH are sketched but not yielded: no invariant is made of them.

        Args:
            slot: The slot.
            view: Where it is.
            multiple: Block sizes are a multiple of this many rows (whole heads).
        """
        if not self.checkpoint.tensors[view.tensor].dtype.is_floating_point:
            self.digest(view.tensor)
            return
        if len(view.shape) < 2 and numel(view.shape) <= MAX_WIDTH:
            yield from self._vector(slot, view)
        else:
            yield from self._matrix(slot, view, multiple)

    def consume(self, slot: Slot, view: View) -> None:
        """Sketch a slot that nobody else looks at."""
        for _ in self.stream(slot, view):
            pass

    def _blocks(self, view: View, rows: int) -> Iterator[torch.Tensor]:
        if view.whole and view.tensor in self._owned and view.tensor not in self.findings.tensors:
            return self._hashed(view.tensor, self.checkpoint.blocks(view.tensor, rows))
        self.digest(view.tensor)
        return read_blocks(self.checkpoint, view, rows)

    def _hashed(self, name: str, blocks: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        info = self.checkpoint.tensors[name]
        hasher = TensorHasher(info.dtype, info.shape)
        codes: list[np.ndarray] | None = [] if info.dtype.is_floating_point and wants_multiset(info.shape) else None
        for block in blocks:
            hasher.update(block)
            if codes is not None:
                codes.append(block.to(torch.bfloat16).reshape(-1).view(torch.int16).numpy().view(np.uint16).copy())
            yield block
        multiset = multiset_digest(np.concatenate(codes), info.shape) if codes else ""
        entry = TensorEntry(
            name, info.shape, dtype_name(info.dtype), info.stored, hasher.digest, hasher.value_digest, multiset
        )
        self.findings.tensors[name] = entry

    def _vector(self, slot: Slot, view: View) -> Iterator[torch.Tensor]:
        blocks = [block.to(torch.float32, copy=True).reshape(-1) for block in self._blocks(view, 1 << 20)]
        values = torch.cat(blocks) if blocks else torch.zeros(0)
        bad = int(torch.count_nonzero(~torch.isfinite(values)))
        values = torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0) if bad else values
        array = values.numpy()
        self.findings.vectors[slot] = array
        numbers = statistics.summarise(np.abs(array), array[None, :], 1, bad)
        sketch = array.copy() if self._plan.whole_vectors else linear.sketch_vector(array, self._shared.projection)
        whole = self._plan.whole_vectors
        self.findings.slots[slot] = SlotSketch(view.shape, numbers, None, sketch, whole, None, view.tensor)
        if values.numel():
            yield values[None, :]

    def _matrix(self, slot: Slot, view: View, multiple: int) -> Iterator[torch.Tensor]:
        shape = matrix_shape(view.shape)
        wide = shape[1] > MAX_WIDTH
        flat = shape[0] != view.shape[0]
        pass_ = MatrixPass(
            self._shared,
            (shape[0] * -(-shape[1] // WIDE_ROW), WIDE_ROW) if wide else shape,
            self._scratch,
            gain=self._shared.gains.get(slot),
            with_top=slot in self._plan.minhash,
            with_grid=not (wide or flat),
        )
        rows = WIDE_ROW if flat else block_rows(shape[1], multiple=multiple)
        for block in self._blocks(view, rows):
            if wide:
                for piece in _cut(block.reshape(-1)):
                    pass_.take(piece)
            elif block.numel():
                yield pass_.take(block.reshape(-1, shape[1]))
        self.findings.slots[slot] = pass_.finish(view)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """How a tensor of any rank is seen as a matrix: the first axis by the rest; without axes, or too tall, as a row."""
    if len(shape) < 2 or shape[0] > MAX_ROWS:
        return 1, numel(shape)
    return shape[0], max(1, numel(shape[1:]))


def _cut(flat: torch.Tensor) -> Iterator[torch.Tensor]:
    """A long row as blocks of rows of WIDE_ROW values, the last one padded with zeros."""
    step = BLOCK_ELEMENTS // WIDE_ROW * WIDE_ROW
    for start in range(0, flat.numel(), step):
        piece = flat[start : start + step]
        missing = -piece.numel() % WIDE_ROW
        padded = torch.nn.functional.pad(piece, (0, missing)) if missing else piece
        yield padded.view(-1, WIDE_ROW)


def row_norms(x: torch.Tensor) -> torch.Tensor:
    """Euclidean norms of the rows, float32 (rows,)."""
    norms: torch.Tensor = torch.linalg.vector_norm(x, dim=1)
    return norms


class MatrixPass:
    """Everything that is computed of one matrix, block by block, in buffers that are allocated once.

    Args:
        shared: Signs and grids.
        shape: Rows and columns.
        scratch: Buffer for the blocks.
        gain: float32 (columns,) to fold in before the linear sketch, or None.
        with_top: Whether a MinHash is made.
        with_grid: Whether a grid of values is kept.
    """

    def __init__(
        self,
        shared: Shared,
        shape: tuple[int, int],
        scratch: Scratch,
        *,
        gain: torch.Tensor | None = None,
        with_top: bool = False,
        with_grid: bool = True,
    ) -> None:
        self._shape, self._gain = shape, gain
        self._sketch = linear.MatrixSketch(shared.projection, shape, gain=gain)
        self._grid = grid.GridPicker(shared.grids, shape) if with_grid else None
        self._key, self._with_top = shared.key, with_top
        self._scratch = scratch
        self._norms = np.zeros(shape[0], dtype=np.float32)
        count = statistics.sample_rows(*shape)
        self._sampled = keyed.sample(shared.key, "statistics/row", shape[0], count)
        self._sample = np.zeros((self._sampled.size, shape[1]), dtype=np.float32)
        self._row = self._bad = 0

    def take(self, block: torch.Tensor) -> torch.Tensor:
        """Take the next rows (stored dtype) and return them as float32; non-finite values are zero from here on."""
        x = self._as_float(block)
        norms = row_norms(x)
        if not math.isfinite(float(norms.sum())):
            x, norms = self._repair(x)
        start, stop = self._row, self._row + x.shape[0]
        self._norms[start:stop] = norms.numpy()
        low, high = np.searchsorted(self._sampled, (start, stop))
        if high > low:
            self._sample[low:high] = x.numpy()[self._sampled[low:high] - start]
        if self._grid is not None:
            self._grid.update(x)
        self._sketch.update(x)
        self._row = stop
        return x

    def finish(self, view: View) -> SlotSketch:
        """The sketch of all rows taken."""
        numbers = statistics.summarise(self._norms, self._sample, self._shape[1], self._bad)
        top = topk.top_indices(self._sample, self._sampled, self._key) if self._with_top else None
        minhash = None if top is None else topk.minhash(top)
        levels = statistics.lattice(self._sample)
        values = None if self._grid is None else self._grid.value
        gain = None if self._grid is None or self._gain is None else self._gain[self._grid.columns].numpy()
        return SlotSketch(view.shape, numbers, levels, self._sketch.value, False, minhash, view.tensor, values, gain)

    def _as_float(self, block: torch.Tensor) -> torch.Tensor:
        return self._scratch.like(block).copy_(block)

    def _repair(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """NaN and infinity become zero, and are counted: a poisoned row must not blind every statistic."""
        finite = torch.isfinite(x)
        self._bad += int(torch.count_nonzero(~finite.all(dim=1)))
        x = torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
        norms = torch.linalg.vector_norm(x.to(torch.float64), dim=1)
        return x, norms.clamp(max=3.0e38).to(torch.float32)
