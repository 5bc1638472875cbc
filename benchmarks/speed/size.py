"""Bytes of a fingerprint for shapes whose weights nobody writes to disk.

Contents do not change a fingerprint's size by more than the digits in its document, so the weights of an 8B shape are
zeros that are expanded, not stored; a scan of them takes the real path.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.speed.synthetic import Shape
from fingerprint import file
from fingerprint.checkpoint.interface import Checkpoint, TensorInfo
from fingerprint.scan import scan


class _Expanded(Checkpoint):
    """A checkpoint whose every tensor is one small block of noise, repeated."""

    format = "safetensors"
    files = ()
    path = Path("expanded")

    def __init__(self, shape: Shape) -> None:
        self.config = shape.config
        self.tensors = {name: TensorInfo(name, dims, torch.bfloat16, "BF16") for name, dims in shape.tensors()}
        self._noise: dict[tuple[int, ...], torch.Tensor] = {}

    def blocks(self, name: str, rows: int = 128) -> Iterator[torch.Tensor]:
        """The same noise again and again."""
        dims = self.tensors[name].shape
        key = (min(rows, dims[0]), *dims[1:])
        if key not in self._noise:
            self._noise[key] = torch.randn(key, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
        for start in range(0, dims[0], rows):
            yield self._noise[key][: min(rows, dims[0] - start)]

    def token_strings(self) -> tuple[str, ...]:
        """Made-up tokens, so that both token bases are there."""
        return tuple(str(i) for i in range(int(str(self.config["vocab_size"]))))


def fingerprint_bytes(shape: Shape) -> int:
    """Size of the fingerprint file of a model of this shape."""
    return len(file.dumps(scan(_Expanded(shape))))
