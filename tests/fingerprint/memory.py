"""A checkpoint that lives in memory: what every test of the layers above reading is written against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fingerprint.checkpoint.interface import Checkpoint, CheckpointFile, TensorInfo

STORED = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class MemoryCheckpoint(Checkpoint):
    """Named tensors with a config, tokens and notes; ``reads`` counts the elements that were asked for, by name.

    Tied tensors of a state dict (two names, one storage) are both kept unless ``drop`` names one of them.
    """

    def __init__(
        self,
        tensors: Mapping[str, torch.Tensor],
        config: Mapping[str, Any] | None = None,
        *,
        tokens: Sequence[str] | None = None,
        notes: Sequence[str] = (),
        format: str = "safetensors",
        drop: Sequence[str] = (),
        raw: bool = True,
    ) -> None:
        self.path = Path("memory")
        self.format = format
        self.config = dict(config or {})
        self.notes = tuple(notes)
        self._tokens = None if tokens is None else tuple(tokens)
        self._raw = raw
        self._data = {k: v.detach().contiguous() for k, v in tensors.items() if k not in drop}
        self.tensors = {
            k: TensorInfo(k, tuple(v.shape), v.dtype, STORED.get(v.dtype, str(v.dtype).removeprefix("torch.").upper()))
            for k, v in self._data.items()
        }
        self.files = (CheckpointFile("memory", sum(v.numel() * v.element_size() for v in self._data.values())),)
        self.reads: dict[str, int] = {}

    def blocks(self, name: str, rows: int = 128) -> Iterator[torch.Tensor]:
        data = self._data[name]
        if not data.ndim:
            self._count(name, 1)
            yield data
            return
        for start in range(0, data.shape[0], rows):
            block = data[start : start + rows]
            self._count(name, block.numel())
            yield block

    def _count(self, name: str, elements: int) -> None:
        self.reads[name] = self.reads.get(name, 0) + elements

    def raw(self, name: str) -> memoryview | None:
        if not self._raw:
            return None
        data = self._data[name]
        return memoryview(data.reshape(-1).view(torch.uint8).numpy() if data.numel() else bytearray()).cast("B")

    def token_strings(self) -> tuple[str, ...] | None:
        return self._tokens
