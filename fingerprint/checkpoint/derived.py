"""Logical tensors that are computed from stored ones, window by window.

Packed int4, int8 with scales, GGUF blocks and transposed ONNX matrices differ only in how rows [lo, hi) of the logical
tensor come out of the map; everything around that (names, blocks, notes, closing) is the same and lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fingerprint.checkpoint.interface import Checkpoint, CheckpointFile, TensorInfo

RELEASE_EVERY = 16 << 20
"""Bytes yielded between two drops of the pages they came from."""

WHOLE_ROWS = 512
"""Rows computed at a time when a whole tensor is asked for."""

Window = Callable[[int, int], torch.Tensor]
"""Rows [lo, hi) of a logical tensor, in its dtype and with its rank."""


def nothing() -> None:
    """Default for hooks that have nothing to do."""


@dataclass(frozen=True)
class Derived:
    """A logical tensor.

    Attributes:
        info: What it looks like once computed.
        window: Computes rows [lo, hi).
        release: Drops the stored tensors' pages once all rows were taken.
        raw: Its stored bytes, where they are its values as they lie.
    """

    info: TensorInfo
    window: Window
    release: Callable[[], None] = nothing
    raw: Callable[[], memoryview] | None = None

    def blocks(self, rows: int) -> Iterator[torch.Tensor]:
        """Consecutive windows of at most ``rows`` rows, contiguous."""
        if not self.info.numel:
            return
        held = 0
        for lo in range(0, self.info.rows, rows):
            block = self.window(lo, min(lo + rows, self.info.rows))
            yield block.reshape(()) if not self.info.shape else block.contiguous()
            held += block.nbytes
            if held >= RELEASE_EVERY:
                self.release()
                held = 0
        self.release()


class DerivedCheckpoint(Checkpoint):
    """Derived tensors, over a base checkpoint that serves what is not derived."""

    def __init__(
        self,
        path: Path,
        derived: Iterable[Derived],
        *,
        format: str,
        files: tuple[CheckpointFile, ...],
        config: Mapping[str, Any],
        base: Checkpoint | None = None,
        keep: Iterable[str] = (),
        notes: Iterable[str] = (),
        tokens: Callable[[], tuple[str, ...] | None] | None = None,
        on_close: Callable[[], None] = nothing,
    ) -> None:
        self.path, self.format, self.files, self.config = path, format, files, config
        self.notes = tuple(dict.fromkeys(notes))
        self._derived = {item.info.name: item for item in derived}
        self._base, self._tokens, self._on_close = base, tokens, on_close
        kept = {} if base is None else {name: base.tensors[name] for name in keep}
        self.tensors = {**kept, **{name: item.info for name, item in self._derived.items()}}

    def blocks(self, name: str, rows: int = 128) -> Iterator[torch.Tensor]:
        """Windows of a derived tensor, or the base's own blocks."""
        if name in self._derived:
            return self._derived[name].blocks(rows)
        if self._base is None or name not in self.tensors:
            raise KeyError(name)
        return self._base.blocks(name, rows)

    def tensor(self, name: str) -> torch.Tensor:
        """The whole tensor, filled block by block: unpacking takes several times the size of what it unpacks."""
        info = self.tensors[name]
        if not info.shape:
            return super().tensor(name)
        out, at = torch.empty(info.shape, dtype=info.dtype), 0
        for block in self.blocks(name, rows=WHOLE_ROWS):
            out[at : at + len(block)] = block
            at += len(block)
        return out

    def raw(self, name: str) -> memoryview | None:
        """Stored bytes where they are the values themselves."""
        if name in self._derived:
            raw = self._derived[name].raw
            return None if raw is None else raw()
        return None if self._base is None else self._base.raw(name)

    def token_strings(self) -> tuple[str, ...] | None:
        """Token strings of the container, or of the tokenizer beside it."""
        if self._tokens is not None:
            return self._tokens()
        return None if self._base is None else self._base.token_strings()

    def close(self) -> None:
        """Close the base and what was opened for this reader."""
        if self._base is not None:
            self._base.close()
        self._derived = {}
        self._on_close()
        self._on_close = nothing
