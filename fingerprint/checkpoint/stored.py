"""Tensors as they lie in one or more safetensors files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.request import Tokens
from fingerprint.checkpoint.safetensors import SafetensorsFile


class SafetensorsCheckpoint(Checkpoint):
    """One or more safetensors files as one set of tensors."""

    format = "safetensors"

    def __init__(
        self, path: Path, files: Sequence[SafetensorsFile], *, config: Mapping[str, Any], tokens: Tokens = lambda: None
    ) -> None:
        self.path, self.config = path, config
        self.files = tuple(sorted((file.file for file in files), key=lambda file: file.name))
        self.shards, self._tokens = tuple(files), tokens
        self._home = {name: file for file in files for name in file.entries}
        self.tensors = {name: file.entries[name].info for name, file in self._home.items()}

    def blocks(self, name: str, rows: int = 128) -> Iterator[torch.Tensor]:
        """Zero-copy views of the map (copies only where a tensor lies misaligned)."""
        return self._home[name].blocks(name, rows)

    def flat(self, name: str) -> torch.Tensor:
        """All elements of a non-empty tensor as one zero-copy vector, for readers that gather across rows."""
        return self._home[name].flat(name)

    def raw(self, name: str) -> memoryview | None:
        """The tensor's bytes in the file."""
        file = self._home[name]
        entry = file.entries[name]
        return file.map.raw(file.data + entry.begin, file.data + entry.end)

    def release(self, name: str) -> None:
        """Drop the tensor's pages from the resident set after it was read through ``raw`` or ``flat``."""
        file = self._home[name]
        entry = file.entries[name]
        file.map.release(file.data + entry.begin, file.data + entry.end)

    def token_strings(self) -> tuple[str, ...] | None:
        """Token strings of the tokenizer beside the weights."""
        return self._tokens()

    def close(self) -> None:
        """Unmap every shard."""
        for file in self.shards:
            file.map.close()
