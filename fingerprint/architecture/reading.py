"""Read a slot's tensor, whole or in row blocks, in the one orientation every family shares.

Where the container holds the bytes as such (``Checkpoint.raw``), a slice is read at its offset, so that the last of
128 packed experts costs no more than the first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from fingerprint.checkpoint.interface import Checkpoint

from .interface import View


def read(checkpoint: Checkpoint, view: View) -> torch.Tensor:
    """The whole tensor of a slot.

    Args:
        checkpoint: Where it is stored.
        view: How it is cut out.

    Returns:
        Tensor of ``view.shape`` in the stored dtype, C-contiguous, freshly allocated.
    """
    blocks = [block.clone() for block in read_blocks(checkpoint, view, max(1, _rows(view.shape)))]
    if not blocks:
        return torch.empty(view.shape, dtype=checkpoint.tensors[view.tensor].dtype)
    return (blocks[0] if len(blocks) == 1 else torch.cat(blocks)).contiguous()


def read_blocks(checkpoint: Checkpoint, view: View, rows: int = 128) -> Iterator[torch.Tensor]:
    """A slot's tensor as consecutive blocks of at most ``rows`` rows.

    Whole tensors, row slices and packed experts stream in memory bounded by the block (packed experts of containers
    without raw bytes: by one expert). Transposed and gathered views hold the stored matrix once.

    Args:
        checkpoint: Where it is stored.
        view: How it is cut out.
        rows: Most rows of a block.

    Yields:
        Blocks in the stored dtype, C-contiguous, valid until the next one is taken.
    """
    if view.whole:
        yield from checkpoint.blocks(view.tensor, rows)
    elif view.transpose or view.order is not None:
        stored = checkpoint.tensor(view.tensor) if view.index is None else _expert(checkpoint, view.tensor, view.index)
        flat = View(view.tensor, view.shape, None, view.transpose, view.rows, view.order)
        yield from (block.contiguous() for block in _split(flat.cut(stored), rows))
    else:
        yield from _contiguous(checkpoint, view, rows)


def _rows(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 1


def _split(whole: torch.Tensor, rows: int) -> Iterator[torch.Tensor]:
    if not whole.ndim:
        yield whole
        return
    for start in range(0, whole.shape[0], rows):
        yield whole[start : start + rows]


def _contiguous(checkpoint: Checkpoint, view: View, rows: int) -> Iterator[torch.Tensor]:
    """Rows that lie one after the other in the stored tensor: a row slice, an expert, or a row slice of an expert."""
    shape = checkpoint.tensors[view.tensor].shape
    inner = shape if view.index is None else shape[1:]
    start, stop = view.rows or (0, _rows(inner))
    raw = checkpoint.raw(view.tensor)
    if raw is not None:
        base = 0 if view.index is None else view.index * _rows(inner)
        yield from _from_raw(raw, inner[1:], checkpoint.tensors[view.tensor].dtype, (base + start, base + stop), rows)
    elif view.index is not None:
        yield from _split(_expert(checkpoint, view.tensor, view.index)[start:stop], rows)
    else:
        yield from _sliced(checkpoint, view.tensor, (start, stop), rows)


def _from_raw(
    raw: memoryview, row_shape: tuple[int, ...], dtype: torch.dtype, span: tuple[int, int], rows: int
) -> Iterator[torch.Tensor]:
    """Rows ``span`` of little-endian bytes, copied into one reused buffer."""
    count = int(np.prod(row_shape, dtype=np.int64)) * dtype.itemsize
    data = np.frombuffer(raw, dtype=np.uint8)
    buffer = torch.empty((min(rows, span[1] - span[0]), *row_shape), dtype=dtype)
    window = buffer.reshape(-1).view(torch.uint8).numpy()
    for start in range(span[0], span[1], rows):
        size = min(rows, span[1] - start)
        window[: size * count] = data[start * count : (start + size) * count]
        yield buffer[:size]


def _expert(checkpoint: Checkpoint, tensor: str, index: int) -> torch.Tensor:
    """One entry along the first axis, freshly allocated."""
    info = checkpoint.tensors[tensor]
    raw = checkpoint.raw(tensor)
    if raw is not None:
        return next(_from_raw(raw, info.shape[1:], info.dtype, (index, index + 1), 1))[0]
    for number, block in enumerate(checkpoint.blocks(tensor, rows=1)):
        if number == index:
            return block[0].clone()
    raise IndexError(f"{tensor} has no entry {index}")


def _sliced(checkpoint: Checkpoint, tensor: str, span: tuple[int, int], rows: int) -> Iterator[torch.Tensor]:
    """Rows of ``span``, cut out of the stored blocks they fall in."""
    offset = 0
    for block in checkpoint.blocks(tensor, rows):
        low, high = max(span[0] - offset, 0), min(span[1] - offset, block.shape[0])
        if low < high:
            yield block[low:high]
        offset += block.shape[0]
        if offset >= span[1]:
            return
