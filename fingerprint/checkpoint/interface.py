"""What every reader offers: named tensors that stream in row blocks, whatever the container.

A reader checks everything that can be checked from headers when it is opened, and allocates nothing that a header
merely claims. Tensors are *logical*: packed int4, quantised ONNX initialisers and GGUF blocks come out dequantised,
in PyTorch's (out x in) orientation, and ``Checkpoint.notes`` says what was undone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class TensorInfo:
    """A logical tensor as its reader yields it.

    Attributes:
        name: Name in the container.
        shape: Logical shape.
        dtype: torch dtype that ``blocks`` yields (the stored one; float32 where the reader dequantises).
        stored: The container's own name for what lies on disk, e.g. ``BF16``, ``Q4_K``, ``gptq-int4``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    stored: str

    @property
    def numel(self) -> int:
        """Number of elements."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def rows(self) -> int:
        """Size of the first axis (1 for a scalar)."""
        return self.shape[0] if self.shape else 1


@dataclass(frozen=True)
class CheckpointFile:
    """One file that belongs to the checkpoint: name relative to its folder, size in bytes."""

    name: str
    size: int


class Checkpoint(ABC):
    """An opened checkpoint. Use as a context manager; blocks are only valid until the next one is taken.

    Attributes:
        path: Folder or file it was opened from.
        format: ``safetensors``, ``torch``, ``gguf``, ``onnx``, ``gptq`` or ``awq``.
        files: The weight files, sorted by name.
        config: Parsed ``config.json`` (or what the container itself declares); empty when there is none.
            Attacker-controlled: a hint, never trusted over shapes.
        tensors: Name to TensorInfo, in storage order.
        notes: Transforms undone while reading, in the contract's words (``dequantised:int8``, ``unpermuted:rope``).
    """

    path: Path
    format: str
    files: tuple[CheckpointFile, ...]
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]
    notes: tuple[str, ...] = ()

    @abstractmethod
    def blocks(self, name: str, rows: int = 128) -> Iterator[torch.Tensor]:
        """Yield ``name`` as consecutive blocks of at most ``rows`` rows of its first axis, in ``TensorInfo.dtype``.

        Each block has the tensor's rank, is C-contiguous, read-only by contract, and may share memory with a
        reused buffer or a memory map. A scalar is one block of shape (). Memory use is bounded by the block.
        """

    def tensor(self, name: str) -> torch.Tensor:
        """The whole tensor, freshly allocated, in ``TensorInfo.dtype``."""
        info = self.tensors[name]
        parts = [block.clone() for block in self.blocks(name, rows=max(1, info.rows))]
        if not parts:
            return torch.empty(info.shape, dtype=info.dtype)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def raw(self, name: str) -> memoryview | None:
        """The stored little-endian bytes of ``name`` as one read-only view, where the container has them as such.

        None for containers that store something else than ``TensorInfo.dtype`` (packed, compressed, dequantised).
        """
        return None

    def token_strings(self) -> tuple[str, ...] | None:
        """Token string by id from ``tokenizer.json`` or ``vocab.txt`` beside the weights; None when there is none."""
        return None

    def close(self) -> None:  # noqa: B027 - most readers hold nothing
        """Release maps and handles; safe to call twice."""

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
