"""GGUF as transformers' tensors: dequantised row by row, under transformers' names, with its converter undone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from fingerprint.checkpoint.derived import Derived, DerivedCheckpoint, Window
from fingerprint.checkpoint.gguf_header import Array, Header, Placed, read_header, strings
from fingerprint.checkpoint.gguf_names import Undo, config, rename, undo
from fingerprint.checkpoint.interface import Checkpoint, CheckpointFile, TensorInfo
from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.request import Request
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

DENSE: Mapping[GGMLQuantizationType, torch.dtype] = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
    GGMLQuantizationType.F64: torch.float64,
    GGMLQuantizationType.I8: torch.int8,
    GGMLQuantizationType.I16: torch.int16,
    GGMLQuantizationType.I32: torch.int32,
    GGMLQuantizationType.I64: torch.int64,
}
_STRING = 8


def open_gguf(request: Request) -> Checkpoint:
    """Open the file; its own metadata comes before ``config.json`` where both speak, its vocabulary before a tokenizer.

    Raises:
        CheckpointError: Malformed, unsupported or over a bound.
    """
    limits, file = request.limits, MappedFile(request.sources[0])
    try:
        header = read_header(file, limits)
        architecture = header.metadata.get("general.architecture")
        if type(architecture) is not str:
            raise MalformedCheckpoint(
                "no architecture", where=f"{file.name}:general.architecture", got=architecture, expected="a name"
            )
        _check_whole(file, header)
        settings = {**request.config, **config(header.metadata, architecture)}
        derived = [item for placed in header.tensors for item in _logical(file, placed, architecture, settings)]
        names = {item.info.name for item in derived}
        if len(names) != len(derived):
            raise MalformedCheckpoint("two tensors of one name", where=file.name, expected="unique names")
    except BaseException:
        file.close()
        raise
    return DerivedCheckpoint(
        request.path,
        derived,
        format="gguf",
        files=(CheckpointFile(file.name, file.size),),
        config=settings,
        notes=sorted(_notes(header, architecture)),
        tokens=lambda: _vocabulary(file, header, limits) or request.tokens(),
        on_close=file.close,
    )


def _check_whole(file: MappedFile, header: Header) -> None:
    """One part of a split model is not the model."""
    parts = header.metadata.get("split.count", 1)
    if parts not in (0, 1):
        raise UnsupportedCheckpoint(
            "one part of a split model",
            where=f"{file.name}:split.count",
            got=parts,
            expected=1,
            remedy="Merge the parts with llama-gguf-split --merge.",
        )


def _notes(header: Header, architecture: str) -> Iterator[str]:
    for placed in header.tensors:
        if placed.kind not in DENSE:
            yield f"dequantised:{placed.kind.name.lower()}"
        action = undo(placed.name, architecture)
        if action not in (Undo.NOTHING, Undo.ROW_VECTOR):
            yield action.value


def _vocabulary(file: MappedFile, header: Header, limits: Limits) -> tuple[str, ...] | None:
    array = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(array, Array) or array.kind != _STRING:
        return None
    if array.count > limits.vocabulary:
        raise CheckpointTooLarge(
            "vocabulary too large",
            where=f"{file.name}:tokenizer.ggml.tokens",
            got=array.count,
            expected=f"<= {limits.vocabulary}",
        )
    return tuple(strings(file, array))


@dataclass(frozen=True)
class _Matrix:
    """A stored tensor as rows of its fastest axis."""

    file: MappedFile
    placed: Placed

    @property
    def dtype(self) -> torch.dtype:
        return DENSE.get(self.placed.kind, torch.float32)

    @property
    def width(self) -> int:
        return self.placed.shape[-1]

    def rows(self, lo: int, hi: int) -> torch.Tensor:
        """Rows [lo, hi), dequantised; a view where the values lie as such."""
        return self._decoded(self._bytes()[lo:hi])

    def gather(self, order: torch.Tensor) -> torch.Tensor:
        """Rows in another order."""
        return self._decoded(self._bytes()[order])

    def columns(self, lo: int, hi: int) -> torch.Tensor:
        """Columns [lo, hi) of all rows, touching only the blocks that hold them."""
        block, size = GGML_QUANT_SIZES[self.placed.kind]
        first, last = lo // block, -(-hi // block)
        part = self._decoded(self._bytes()[:, first * size : last * size].contiguous())
        return part[:, lo - first * block : hi - first * block]

    def _bytes(self) -> torch.Tensor:
        size = self.placed.end - self.placed.begin
        return self.file.flat(self.placed.begin, size, torch.uint8).view(math.prod(self.placed.shape[:-1]), -1)

    def _decoded(self, data: torch.Tensor) -> torch.Tensor:
        if self.placed.kind in DENSE:
            return (data if data.data_ptr() % self.dtype.itemsize == 0 else data.clone()).view(self.dtype)
        with np.errstate(all="ignore"):  # hostile scales may be NaN: values to compare, not reasons to stop
            return torch.from_numpy(quants.dequantize(data.numpy(), self.placed.kind))


@cache
def _readable(kind: GGMLQuantizationType) -> bool:
    """Whether the gguf package dequantises ``kind``; types of activations and the newest ones it does not."""
    if kind in DENSE:
        return True
    try:
        quants.dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _logical(file: MappedFile, placed: Placed, architecture: str, settings: Mapping[str, Any]) -> Iterator[Derived]:
    """The transformers tensors that one GGUF tensor stands for: one, or one for each expert."""
    if not _readable(placed.kind):
        raise UnsupportedCheckpoint(
            "tensor type cannot be dequantised",
            where=f"{file.name}:{placed.name[:100]}",
            got=placed.kind.name,
            expected="a type of weights that the gguf package dequantises",
            remedy="Quantise the model to another type, or give the original.",
        )
    matrix = _Matrix(file, placed)
    name = rename(placed.name, architecture, experts=bool(settings.get("num_experts")))
    action = undo(placed.name, architecture)
    if action == Undo.EXPERTS and len(placed.shape) == 3:
        experts, rows, width = placed.shape
        for expert in range(experts):
            yield _derived(matrix, name.replace("{}", str(expert)), (rows, width), _slice(matrix, expert * rows, rows))
        return
    shape, window = _undone(matrix, action, settings)
    raw = None
    if placed.kind in DENSE and action in (Undo.NOTHING, Undo.ROW_VECTOR):
        raw = _raw(matrix)
    yield _derived(matrix, name, shape, window, raw)


def _derived(
    matrix: _Matrix, name: str, shape: tuple[int, ...], window: Window, raw: Callable[[], memoryview] | None = None
) -> Derived:
    placed, file = matrix.placed, matrix.file
    info = TensorInfo(name, shape, matrix.dtype, placed.kind.name)
    return Derived(info, window, lambda: file.release(placed.begin, placed.end), raw)


def _raw(matrix: _Matrix) -> Callable[[], memoryview]:
    return lambda: matrix.file.raw(matrix.placed.begin, matrix.placed.end)


def _slice(matrix: _Matrix, start: int, rows: int) -> Window:
    return lambda lo, hi: matrix.rows(start + lo, start + hi).view(hi - lo, matrix.width)


def _undone(matrix: _Matrix, action: Undo, settings: Mapping[str, Any]) -> tuple[tuple[int, ...], Window]:
    """Shape and window of a tensor with the converter's change undone."""
    shape = matrix.placed.shape
    if action == Undo.TRANSPOSE and len(shape) == 2:
        return shape[::-1], lambda lo, hi: matrix.columns(lo, hi).T
    if action in (Undo.ROPE_ROWS, Undo.QKV_ROWS):
        order = _row_order(matrix, action, settings)
        if len(shape) == 1:
            return shape, lambda lo, hi: matrix.rows(0, 1).flatten()[order[lo:hi]]
        return shape, lambda lo, hi: matrix.gather(order[lo:hi]).view(hi - lo, *shape[1:])
    if action == Undo.ROW_VECTOR and len(shape) == 1:
        return (1, *shape), lambda lo, hi: matrix.rows(lo, hi)
    offset = 1 if action == Undo.NORM_PLUS_ONE else 0
    if len(shape) == 1:
        return shape, lambda lo, hi: matrix.rows(0, 1).flatten()[lo:hi] - offset
    per_row = math.prod(shape[1:-1])
    if offset:
        return shape, lambda lo, hi: (matrix.rows(lo * per_row, hi * per_row) - offset).view(hi - lo, *shape[1:])
    return shape, lambda lo, hi: matrix.rows(lo * per_row, hi * per_row).view(hi - lo, *shape[1:])


def _row_order(matrix: _Matrix, action: Undo, settings: Mapping[str, Any]) -> torch.Tensor:
    """Stored row of each transformers row, from the head count that the metadata declares."""
    rows, name = matrix.placed.shape[0], matrix.placed.name
    key = "num_key_value_heads" if ".attn_k." in name else "num_attention_heads"
    heads = settings.get(key, settings.get("num_attention_heads"))
    parts = 2 if action == Undo.ROPE_ROWS else 3
    if type(heads) is not int or heads < 1 or rows % (heads * parts):
        raise MalformedCheckpoint(
            "head count does not divide the rows",
            where=f"{matrix.file.name}:{name[:100]}",
            got=heads,
            expected=f"a count whose {parts}-fold divides {rows}",
        )
    stored = torch.arange(rows)
    if action == Undo.ROPE_ROWS:  # stored (head, pair, half); transformers (head, half, pair)
        return stored.view(heads, -1, 2).transpose(1, 2).flatten()
    return stored.view(3, heads, -1).transpose(0, 1).flatten()  # stored (q k v, head); transformers (head, q k v)
