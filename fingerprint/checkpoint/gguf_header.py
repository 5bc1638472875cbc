"""The header of a GGUF file, read with bounds and left where it lies.

Format: ggml/docs/gguf.md, versions 2 and 3, little-endian. Arrays (a vocabulary is one of a quarter of a million
strings) are walked, not built; tensors must tile the data section with nothing but alignment between them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.safetensors import check_name
from fingerprint.checkpoint.strict_json import without_cycles
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMS = 4  # GGML_MAX_DIMS
_KEPT_STRING = 1024
_MAX_KEYS = 10_000
_MAX_ALIGNMENT = 1 << 16
_REMEDY = "Convert the model to GGUF again."


@dataclass(frozen=True)
class Array:
    """An array value, by place: element type, count, and where the first element begins."""

    kind: int
    count: int
    begin: int


@dataclass(frozen=True)
class Placed:
    """A tensor by place.

    Attributes:
        name: GGUF name.
        shape: PyTorch order, slowest axis first.
        kind: ggml type.
        begin: First byte in the file.
        end: Byte after the last.
    """

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """Metadata (strings over 1 kB left out) and tensors in storage order."""

    metadata: Mapping[str, object]
    tensors: tuple[Placed, ...]


@without_cycles()
def read_header(file: MappedFile, limits: Limits) -> Header:
    """Parse and check the header of ``file``.

    Raises:
        MalformedCheckpoint: Any contradiction.
        UnsupportedCheckpoint: Another version, byte order or tensor type.
        CheckpointTooLarge: A bound of ``limits``.
    """
    cursor = _Cursor(file, limits)
    if file.read(0, 4) != MAGIC:
        raise cursor.bad("magic", file.read(0, 4).hex(), "47475546")
    cursor.at = 4
    version = cursor.number("I", "version")
    if version not in VERSIONS:
        raise UnsupportedCheckpoint(
            "GGUF version or byte order not read", where=f"{file.name}:version", got=version, expected="2 or 3"
        )
    tensors, keys = int(cursor.number("Q", "tensor_count")), int(cursor.number("Q", "metadata_kv_count"))
    if tensors > limits.tensors or keys > _MAX_KEYS:
        raise CheckpointTooLarge(
            "too many tensors or keys",
            where=f"{file.name}:header",
            got=(tensors, keys),
            expected=f"<= {limits.tensors}, {_MAX_KEYS}",
        )
    metadata = _metadata(cursor, keys)
    infos = [_info(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        raise cursor.bad("general.alignment", alignment, f"a power of two from 8 to {_MAX_ALIGNMENT}")
    return Header(metadata, _placed(cursor, infos, alignment))


def strings(file: MappedFile, array: Array) -> Iterator[str]:
    """The elements of a string array that the header's walk has already bounded."""
    data, at = file.raw(0, file.size), array.begin
    for _ in range(array.count):
        size = int(struct.unpack_from("<Q", data, at)[0])
        yield bytes(data[at + 8 : at + 8 + size]).decode("utf-8", "replace")
        at += 8 + size


class _Cursor:
    """Reads numbers and strings one after the other, and never past the end."""

    def __init__(self, file: MappedFile, limits: Limits) -> None:
        self.file, self.limits, self.at = file, limits, 0
        self.data = file.raw(0, file.size)
        self.strings_left = limits.header_strings

    def bad(self, field: str, got: object, expected: object) -> MalformedCheckpoint:
        return MalformedCheckpoint(
            "GGUF header contradicts itself",
            where=f"{self.file.name}:{field}",
            got=got,
            expected=expected,
            remedy=_REMEDY,
        )

    def number(self, code: str, field: str) -> int | float | bool:
        layout = "<" + code
        self.need(struct.calcsize(layout), field)
        value: int | float | bool = struct.unpack_from(layout, self.data, self.at)[0]
        self.at += struct.calcsize(layout)
        return value

    def need(self, size: int, field: str) -> None:
        if size > self.file.size - self.at:
            raise self.bad(field, f"{size} bytes at {self.at}", f"<= {self.file.size - self.at} bytes")

    def text(self, field: str, longest: int) -> str | None:
        """A string; None (and skipped) when it is longer than anything we want."""
        size = int(self.number("Q", field))
        self.need(size, field)
        self.at += size
        if size > longest:
            return None
        try:
            return bytes(self.data[self.at - size : self.at]).decode("utf-8")
        except UnicodeDecodeError:
            raise self.bad(field, "bytes that are no UTF-8", "UTF-8") from None


def _metadata(cursor: _Cursor, keys: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for i in range(keys):
        key = cursor.text(f"metadata[{i}].key", cursor.limits.name_bytes)
        if not key or key in found:
            raise cursor.bad(f"metadata[{i}].key", key or "empty or too long", "a new key")
        found[key] = _value(cursor, key[:100])
    return found


def _value(cursor: _Cursor, key: str) -> object:
    kind = int(cursor.number("I", f"{key}.type"))
    if kind in _FIXED:
        return cursor.number(_FIXED[kind], key)
    if kind == _STRING:
        return cursor.text(key, _KEPT_STRING)
    if kind != _ARRAY:
        raise cursor.bad(f"{key}.type", kind, "0 to 12")
    kind, count = int(cursor.number("I", f"{key}.type")), int(cursor.number("Q", f"{key}.count"))
    array = Array(kind, count, cursor.at)
    if kind in _FIXED:
        size = count * struct.calcsize("<" + _FIXED[kind])
        cursor.need(size, key)
        cursor.at += size
    elif kind == _STRING:
        _walk_strings(cursor, count, key)
    else:
        raise cursor.bad(f"{key}.type", f"array of type {kind}", "an array of numbers or strings")
    return array


def _walk_strings(cursor: _Cursor, count: int, key: str) -> None:
    cursor.strings_left -= count
    if cursor.strings_left < 0:
        raise CheckpointTooLarge(
            "too many strings", where=f"{cursor.file.name}:{key}", got=count, expected=cursor.limits.header_strings
        )
    data, at, end, read = cursor.data, cursor.at, cursor.file.size, struct.Struct("<Q").unpack_from
    for _ in range(count):
        if at + 8 > end:
            raise cursor.bad(key, "strings past the end", f"{count} strings")
        at += 8 + read(data, at)[0]
    if at > end:
        raise cursor.bad(key, f"strings until byte {at}", f"<= {end}")
    cursor.at = at


@dataclass(frozen=True)
class _Info:
    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    size: int


def _info(cursor: _Cursor) -> _Info:
    """One tensor's claim, checked in itself."""
    name = cursor.text("tensor name", cursor.limits.name_bytes) or ""
    check_name(name, cursor.file.name, cursor.limits)
    where = name[:100]
    rank = int(cursor.number("I", f"{where}.n_dims"))
    if not 1 <= rank <= _MAX_DIMS:
        raise cursor.bad(f"{where}.n_dims", rank, f"1 to {_MAX_DIMS}")
    dims = [int(cursor.number("Q", f"{where}.dims")) for _ in range(rank)]
    code, offset = int(cursor.number("I", f"{where}.type")), int(cursor.number("Q", f"{where}.offset"))
    try:
        kind = GGMLQuantizationType(code)
        block, size = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise UnsupportedCheckpoint(
            "tensor type not read",
            where=f"{cursor.file.name}:{where}.type",
            got=code,
            expected="a ggml type",
            remedy=_REMEDY,
        ) from None
    if dims[0] % block or math.prod(dims) >= 1 << 60:
        raise cursor.bad(f"{where}.dims", dims, f"a multiple of {block} first, under 2**60 elements")
    return _Info(name, tuple(reversed(dims)), kind, offset, math.prod(dims) // block * size)


def _placed(cursor: _Cursor, infos: list[_Info], alignment: int) -> tuple[Placed, ...]:
    """Tensors, sorted, tiling the data section with padding only."""
    if len({info.name for info in infos}) != len(infos):
        raise cursor.bad("tensor names", "a name twice", "unique names")
    start, at = _up(cursor.at, alignment), 0
    placed = []
    for info in sorted(infos, key=lambda info: (info.offset, info.size)):
        if info.offset != _up(at, alignment):
            raise cursor.bad(f"{info.name[:100]}.offset", info.offset, _up(at, alignment))
        at = info.offset + info.size
        placed.append(Placed(info.name, info.shape, info.kind, start + info.offset, start + at))
    if not start + at <= cursor.file.size <= start + _up(at, alignment):
        raise cursor.bad("data", f"{cursor.file.size} bytes", f"{start + at} bytes and padding")
    return tuple(placed)


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
