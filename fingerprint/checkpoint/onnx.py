"""ONNX initialisers as PyTorch-oriented, dequantised tensors (https://onnx.ai/onnx/repo-docs/IR.html)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fingerprint.checkpoint.derived import Derived, DerivedCheckpoint
from fingerprint.checkpoint.interface import Checkpoint, CheckpointFile, TensorInfo
from fingerprint.checkpoint.onnx_model import Stored, read_graph
from fingerprint.checkpoint.onnx_values import Value, weights
from fingerprint.checkpoint.request import Request
from fingerprint.checkpoint.safetensors import check_name
from fingerprint.checkpoint.scales import block_steps, spread
from fingerprint.errors import MalformedCheckpoint

_BITS = {"INT4": "int4", "UINT4": "uint4", "INT8": "int8", "UINT8": "uint8"}


def open_onnx(request: Request) -> Checkpoint:
    """Open the graph's file with its external data.

    Matrices whose name the exporter folded away come out (out x in) and, where the graph tells, under their
    parameter's name; notes then say ``transposed`` and ``renamed``. Integer shape constants are left out.

    Raises:
        CheckpointError: Malformed, over a bound, no weights, or data outside the folder.
    """
    path, limits = request.sources[0], request.limits
    graph = read_graph(path, limits)
    values = weights(graph)
    if not values:
        raise MalformedCheckpoint("no weights in the graph", where=path.name, expected="initialisers")
    notes = set()
    for value in values:
        check_name(value.name, path.name, limits)
        notes |= {note for note, holds in _notes(value).items() if holds}
    return DerivedCheckpoint(
        request.path,
        [_derived(value) for value in values],
        format="onnx",
        files=tuple(CheckpointFile(file.name, file.size) for file in sorted(graph.files, key=lambda f: f.name)),
        config=request.config,
        notes=sorted(notes),
        tokens=request.tokens,
        on_close=graph.close,
    )


def _notes(value: Value) -> dict[str, bool]:
    return {
        f"dequantised:{_BITS.get(value.codes.kind, value.codes.kind.lower())}": value.scale is not None,
        "transposed": value.swapped,
        "renamed": not value.named and value.name != value.codes.name and value.swapped,
    }


def _derived(value: Value) -> Derived:
    codes, shape = value.codes, value.codes.shape
    shape = shape[::-1] if value.swapped else shape
    dtype = codes.dtype if value.scale is None else torch.float32
    info = TensorInfo(value.name, shape, dtype, codes.kind)
    axis = 1 if value.swapped else 0

    def window(lo: int, hi: int) -> torch.Tensor:
        block = codes.narrow(axis, lo, hi)
        if value.scale is not None:
            block = block.to(torch.float32)
            if value.zero is not None:
                block = block - _over(value.zero, codes.shape, axis, lo, hi)
            block = block * _over(value.scale, codes.shape, axis, lo, hi)
        return block.T if value.swapped else block

    return Derived(info, window, lambda: _release(codes), _raw(value))


def _over(parameter: torch.Tensor, shape: tuple[int, ...], axis: int, lo: int, hi: int) -> torch.Tensor:
    steps = block_steps(parameter.shape, shape) or (1,) * len(shape)
    return spread(parameter, steps, shape, axis=axis, lo=lo, hi=hi)


def _release(codes: Stored) -> None:
    if codes.origin is not None:
        file, begin, end = codes.origin
        file.release(begin, end)


def _raw(value: Value) -> Callable[[], memoryview] | None:
    """Stored bytes, where they are the values in order."""
    origin = value.codes.origin
    if origin is None or value.scale is not None or value.swapped or value.codes.packed:
        return None
    file, begin, end = origin
    return lambda: file.raw(begin, end)
