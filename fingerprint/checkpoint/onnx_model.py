"""Nodes and initialisers of an ONNX file, with weights left where they lie.

Field numbers are those of onnx/onnx.proto3 (IR version 13). Only what names and orients weights is read: the graph is
never run, sub-graphs are not entered, and functions are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from fingerprint.checkpoint.folder import confined
from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.protobuf import BYTES, FIXED32, FIXED64, Field, Wire
from fingerprint.checkpoint.safetensors import check_shape
from fingerprint.checkpoint.strict_json import without_cycles
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

DTYPES: Mapping[int, tuple[str, torch.dtype]] = {
    1: ("FLOAT", torch.float32),
    2: ("UINT8", torch.uint8),
    3: ("INT8", torch.int8),
    4: ("UINT16", torch.uint16),
    5: ("INT16", torch.int16),
    6: ("INT32", torch.int32),
    7: ("INT64", torch.int64),
    9: ("BOOL", torch.bool),
    10: ("FLOAT16", torch.float16),
    11: ("DOUBLE", torch.float64),
    12: ("UINT32", torch.uint32),
    13: ("UINT64", torch.uint64),
    16: ("BFLOAT16", torch.bfloat16),
    17: ("FLOAT8E4M3FN", torch.float8_e4m3fn),
    18: ("FLOAT8E4M3FNUZ", torch.float8_e4m3fnuz),
    19: ("FLOAT8E5M2", torch.float8_e5m2),
    20: ("FLOAT8E5M2FNUZ", torch.float8_e5m2fnuz),
}
NIBBLES: Mapping[int, str] = {21: "UINT4", 22: "INT4"}
"""Two codes a byte, low nibble first."""
_STRING = 8
_PACKED_FIXED = {4: (1, torch.float32), 10: (11, torch.float64)}  # float_data, double_data: field to (type, dtype)
_PACKED_VARINT = (5, 7, 11)  # int32_data, int64_data, uint64_data
_BROKEN = "Export the model again."


@dataclass(frozen=True)
class Stored:
    """A tensor as it lies: dense, or two 4-bit codes a byte.

    Attributes:
        name: Its name in the graph.
        shape: Logical shape.
        kind: ONNX's name of the dtype.
        dtype: torch dtype of ``narrow``; int8 for 4-bit codes.
        data: Its bytes, zero-copy. Protobuf aligns nothing, so elements are only made of them slice by slice.
        origin: The map and byte range it came from, for release and raw; None for values spelled out as varints.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    dtype: torch.dtype
    data: torch.Tensor
    origin: tuple[MappedFile, int, int] | None = None

    @property
    def packed(self) -> bool:
        """Whether two codes share a byte."""
        return self.kind in NIBBLES.values()

    @property
    def floating(self) -> bool:
        """Whether the elements are reals of at least 16 bits."""
        return self.dtype.is_floating_point and self.dtype.itemsize > 1

    def whole(self) -> torch.Tensor:
        """All of it."""
        return self.narrow(0, 0, self.shape[0] if self.shape else 1)

    def narrow(self, axis: int, lo: int, hi: int) -> torch.Tensor:
        """Indices [lo, hi) of ``axis``; a view of the file where that is contiguous and aligned."""
        if not self.data.numel():
            shape = [hi - lo if i == axis else size for i, size in enumerate(self.shape)]
            return torch.empty(shape, dtype=self.dtype)
        if self.packed:
            return self._nibbles(axis, lo, hi)
        if not self.shape:
            return _elements(self.data, self.dtype).reshape(())
        size = self.dtype.itemsize
        lines = self.data.view(*self.shape[:-1], self.shape[-1] * size)
        scale = size if axis == len(self.shape) - 1 else 1
        return _elements(lines.narrow(axis, lo * scale, (hi - lo) * scale), self.dtype)

    def _nibbles(self, axis: int, lo: int, hi: int) -> torch.Tensor:
        if not self.shape or self.shape[-1] % 2:
            codes = self._unpack(self.data)[: _numel(self.shape)].view(self.shape)
            return codes.narrow(axis, lo, hi - lo) if self.shape else codes
        pairs = self.data.view(*self.shape[:-1], self.shape[-1] // 2)
        if axis < len(self.shape) - 1:
            return self._unpack(pairs.narrow(axis, lo, hi - lo))
        return self._unpack(pairs[..., lo // 2 : (hi + 1) // 2])[..., lo % 2 : lo % 2 + hi - lo]

    def _unpack(self, pairs: torch.Tensor) -> torch.Tensor:
        codes = torch.stack((pairs & 15, pairs >> 4), dim=-1).flatten(-2).to(torch.int8)
        return torch.where(codes > 7, codes - 16, codes) if self.kind == "INT4" else codes


def _elements(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Bytes as elements along the last axis; copied where they are strided or misaligned."""
    if not data.is_contiguous() or data.data_ptr() % dtype.itemsize:
        data = data.clone(memory_format=torch.contiguous_format)
    return data != 0 if dtype == torch.bool else data.view(dtype)


@dataclass(frozen=True)
class Node:
    """An operation: what it reads, makes, and its integer attributes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Graph:
    """What was read: nodes in order, tensors by name, files that hold them."""

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Stored]
    files: tuple[MappedFile, ...]

    def close(self) -> None:
        """Unmap the files."""
        for file in self.files:
            file.close()


@without_cycles()
def read_graph(path: Path, limits: Limits) -> Graph:
    """Parse ``path``.

    Raises:
        CheckpointError: Malformed, over a bound, or with external data outside the folder.
    """
    reader = _Reader(path, limits)
    try:
        return reader.read()
    except BaseException:
        for file in reader.files.values():
            file.close()
        raise


class _Reader:
    """Holds the open files and what was found so far."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.folder, self.limits = path.parent, limits
        self.main = MappedFile(path)
        self.files = {path.name: self.main}
        self.wire = Wire(self.main, max_fields=limits.onnx_fields)
        self.nodes: list[Node] = []
        self.tensors: dict[str, Stored] = {}

    def read(self) -> Graph:
        graphs = [field for field in self.wire.fields(0, self.main.size) if field.number == 7]
        if len(graphs) != 1 or graphs[0].wire != BYTES:
            raise MalformedCheckpoint(
                "no single graph", where=f"{self.main.name}:graph", got=len(graphs), expected=1, remedy=_BROKEN
            )
        for field in self.wire.fields(graphs[0].begin, graphs[0].end):
            if field.number == 1:
                self._node(field)
            elif field.number == 5:
                self._keep(self._tensor(field, None))
            elif field.number == 15:
                raise UnsupportedCheckpoint(
                    "sparse initialiser", where=f"{self.main.name}:sparse_initializer", remedy="Export dense weights."
                )
        return Graph(tuple(self.nodes), self.tensors, tuple(self.files.values()))

    def _keep(self, tensor: Stored | None) -> None:
        if tensor is None:
            return
        if tensor.name in self.tensors:
            raise MalformedCheckpoint(
                "duplicate initialiser", where=f"{self.main.name}:{tensor.name}", got=2, expected=1, remedy=_BROKEN
            )
        if len(self.tensors) >= self.limits.tensors:
            raise CheckpointTooLarge("too many tensors", where=self.main.name, expected=f"<= {self.limits.tensors}")
        self.tensors[tensor.name] = tensor

    def _node(self, message: Field) -> None:
        if message.begin == message.end:
            return
        texts: dict[int, list[str]] = {1: [], 2: [], 3: [], 4: []}
        ints: dict[str, tuple[int, ...]] = {}
        constants: list[Field] = []
        for field in self.wire.fields(message.begin, message.end):
            if field.number in texts:
                texts[field.number].append(self.wire.text(field))
            elif field.number == 5:
                self._attribute(field, ints, constants)
        op = texts[4][-1] if texts[4] else ""
        if op == "Constant" and len(constants) == 1 and len(texts[2]) == 1:
            self._keep(self._tensor(constants[0], texts[2][0]))
            return
        name = texts[3][-1] if texts[3] else ""
        self.nodes.append(Node(op, name, tuple(texts[1]), tuple(texts[2]), ints))

    def _attribute(self, message: Field, ints: dict[str, tuple[int, ...]], constants: list[Field]) -> None:
        name, values = "", []
        for field in self.wire.fields(message.begin, message.end):
            if field.number == 1:
                name = self.wire.text(field)
            elif field.number in (3, 8):
                values += self.wire.varints(field)
            elif field.number == 5 and field.wire == BYTES:
                constants.append(field)
        if values:
            ints[name] = tuple(values)

    def _tensor(self, message: Field, name: str | None) -> Stored | None:
        """A TensorProto; None for strings, which are no weights."""
        dims: list[int] = []
        single: dict[int, Field] = {}
        external: dict[str, str] = {}
        data: list[Field] = []
        for field in self.wire.fields(message.begin, message.end):
            if field.number == 1:
                dims += self.wire.varints(field)
            elif field.number == 13:
                key, value = self._entry(field)
                external[key] = value
            elif field.number in (4, 5, 7, 9, 10, 11):
                data.append(field)
            elif field.number in single:
                raise MalformedCheckpoint(
                    "repeated field", where=f"{self.main.name}:TensorProto.{field.number}", got=2, expected=1
                )
            else:
                single[field.number] = field
        if name is None:
            name = self.wire.text(single[8]) if 8 in single else ""
        kind = single[2].value if 2 in single else 0
        where = f"{self.main.name}:{(name or '(unnamed)')[:100]}"
        if kind == _STRING:
            return None
        if not name or (kind not in DTYPES and kind not in NIBBLES):
            raise UnsupportedCheckpoint("dtype not read", where=where, got=kind, expected="a dense numeric ONNX dtype")
        shape = check_shape(dims, f"{where}.dims", self.limits)
        if _bytes(shape, kind) >= 1 << 63:
            raise MalformedCheckpoint("shape overflows 64 bits", where=f"{where}.dims", got=shape, expected="< 2**63")
        if external and data:
            raise MalformedCheckpoint("data both inside and outside the file", where=where, expected="one of them")
        if external:
            return self._external(name, shape, kind, external, where)
        return self._inline(name, shape, kind, data, where)

    def _entry(self, message: Field) -> tuple[str, str]:
        pair = {field.number: self.wire.text(field) for field in self.wire.fields(message.begin, message.end)}
        return pair.get(1, ""), pair.get(2, "")

    def _external(self, name: str, shape: tuple[int, ...], kind: int, entries: Mapping[str, str], where: str) -> Stored:
        location = entries.get("location", "")
        path = confined(self.folder, location, where=f"{where}.external_data.location")
        if location not in self.files:
            self.files[location] = MappedFile(path)
        file = self.files[location]
        numbers = [entries.get("offset", "0"), entries.get("length", str(_bytes(shape, kind)))]
        if not all(text.isascii() and text.isdigit() and len(text) < 20 for text in numbers):
            raise MalformedCheckpoint(
                "external range is no number", where=f"{where}.external_data", got=numbers, expected="decimal digits"
            )
        begin, length = map(int, numbers)
        return _dense(name, shape, kind, file, begin, begin + length, where)

    def _inline(self, name: str, shape: tuple[int, ...], kind: int, data: list[Field], where: str) -> Stored:
        if not data and not _numel(shape):
            return _dense(name, shape, kind, self.main, 0, 0, where)
        if len({field.number for field in data}) != 1 or (len(data) > 1 and data[0].wire in (BYTES,)):
            raise MalformedCheckpoint(
                "no single data field", where=where, got=[f.number for f in data][:8], expected="one", remedy=_BROKEN
            )
        first = data[0]
        if first.number == 9 or (first.number in _PACKED_FIXED and _PACKED_FIXED[first.number][0] == kind):
            if first.wire in (FIXED32, FIXED64) and len(data) > 1:
                raise UnsupportedCheckpoint("unpacked repeated field", where=where, remedy=_BROKEN)
            return _dense(name, shape, kind, self.main, first.begin, first.end, where)
        if first.number not in _PACKED_VARINT:
            raise MalformedCheckpoint("data field of another dtype", where=where, got=first.number, expected=kind)
        return self._spelled(name, shape, kind, [v for field in data for v in self.wire.varints(field)], where)

    def _spelled(self, name: str, shape: tuple[int, ...], kind: int, values: list[int], where: str) -> Stored:
        """Small integers as varints; 16-bit floats and packed nibbles come as their bits (onnx.proto3, int32_data)."""
        count = _bytes(shape, kind) if kind in NIBBLES else _numel(shape)
        if len(values) != count:
            raise MalformedCheckpoint("data differs from shape", where=where, got=len(values), expected=count)
        try:
            flat = _from_bits(values, kind)
        except (ValueError, RuntimeError, OverflowError) as error:
            raise MalformedCheckpoint("value out of range", where=where, got=str(error)) from None
        return Stored(name, shape, *_type(kind), flat.view(torch.uint8))


def _from_bits(values: list[int], kind: int) -> torch.Tensor:
    if kind in NIBBLES:
        return torch.tensor(values, dtype=torch.uint8)
    dtype = DTYPES[kind][1]
    if dtype.is_floating_point:
        bits = {1: torch.uint8, 2: torch.int16}[dtype.itemsize]
        return torch.tensor(values, dtype=torch.int32).to(bits).view(dtype)
    return torch.tensor(values, dtype=torch.int64).to(dtype)


def _type(kind: int) -> tuple[str, torch.dtype]:
    return (NIBBLES[kind], torch.int8) if kind in NIBBLES else DTYPES[kind]


def _dense(name: str, shape: tuple[int, ...], kind: int, file: MappedFile, begin: int, end: int, where: str) -> Stored:
    """A tensor over bytes [begin, end) of ``file``, checked against its shape and the file."""
    if end - begin != _bytes(shape, kind):
        raise MalformedCheckpoint(
            "data differs from dtype x shape", where=where, got=f"{end - begin} bytes", expected=_bytes(shape, kind)
        )
    if end > file.size:
        raise MalformedCheckpoint(
            "data leaves its file", where=f"{where}:{file.name}", got=f"ends at {end}", expected=f"<= {file.size}"
        )
    data = file.flat(begin, end - begin, torch.uint8) if end > begin else torch.empty(0, dtype=torch.uint8)
    return Stored(name, shape, *_type(kind), data, (file, begin, end))


def _numel(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def _bytes(shape: tuple[int, ...], kind: int) -> int:
    return (_numel(shape) + 1) // 2 if kind in NIBBLES else _numel(shape) * DTYPES[kind][1].itemsize
