"""Bytes of a fingerprint for shapes whose weights nobody writes to disk.

Contents do not change a fingerprint's size by more than the digits in its document, so the weights of an 8B shape are
cut from one pool of noise as they are asked for; a scan of them takes the real path.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.speed.synthetic import Shape
from fingerprint import file
from fingerprint.checkpoint.interface import Checkpoint, TensorInfo
from fingerprint.scan import scan

POOL, BLOCK = 1 << 22, 256


class _Expanded(Checkpoint):
    """A checkpoint whose blocks are slices of one pool of noise, at offsets that depend on tensor and row."""

    format = "safetensors"
    files = ()
    path = Path("expanded")

    def __init__(self, shape: Shape) -> None:
        self.config = shape.config
        self.tensors = {name: TensorInfo(name, dims, torch.bfloat16, "BF16") for name, dims in shape.tensors()}
        largest = max(dims[-1] for _, dims in shape.tensors())
        self._pool = torch.randn(POOL + BLOCK * largest, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
        self._seed = {name: number * 7_919 for number, name in enumerate(self.tensors)}

    def blocks(self, name: str, rows: int = 128) -> Iterator[torch.Tensor]:
        """Noise, the same for the same rows however they are asked for only if ``rows`` stays the same."""
        dims = self.tensors[name].shape
        width = dims[1] if len(dims) > 1 else 1
        rows = min(rows, BLOCK)
        for start in range(0, dims[0], rows):
            offset = (self._seed[name] + start * width * 31) % POOL
            count = min(rows, dims[0] - start)
            yield self._pool[offset : offset + count * width].view(count, *dims[1:])

    def token_strings(self) -> tuple[str, ...]:
        """Made-up tokens, so that both token bases are there."""
        return tuple(str(i) for i in range(int(str(self.config["vocab_size"]))))


def fingerprint_bytes(shape: Shape) -> int:
    """Size of the fingerprint file of a model of this shape."""
    return len(file.dumps(scan(_Expanded(shape))))
