"""Safetensors by a header parser of our own, stricter than the library's.

The library accepts a duplicate key whose ranges agree, and keeps the last; here every way in which two readers could
disagree about a file is refused before a tensor is touched (2-weights, section 1). Format: 8 bytes little-endian
header length, a JSON object, then the tensors back to back
(https://github.com/huggingface/safetensors#format; safetensors/src/tensor.rs).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from fingerprint.checkpoint.interface import CheckpointFile, TensorInfo
from fingerprint.checkpoint.limits import DEFAULT_LIMITS, FORMAT_HEADER_BYTES, Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.strict_json import parse_object, without_cycles
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

DTYPES: Mapping[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
    "C64": torch.complex64,
}
SUB_BYTE = frozenset({"F4", "F6_E2M3", "F6_E3M2"})
"""Dtypes the format knows and this version refuses: torch has no dense form of them."""

_METADATA = "__metadata__"
_PREFIX = 8
_RELEASE_EVERY = 16 << 20
_U64 = 1 << 64
_REMEDY = "The file contradicts itself; ask its author to save it again with the safetensors library."


@dataclass(frozen=True)
class Entry:
    """A tensor's place: byte range relative to the data section."""

    info: TensorInfo
    begin: int
    end: int


@without_cycles()
def parse_header(header: bytes, *, data_bytes: int, where: str, limits: Limits = DEFAULT_LIMITS) -> tuple[Entry, ...]:
    """Check a header against the size of the data that follows it.

    Args:
        header: The JSON text, without the length prefix.
        data_bytes: Bytes after the header.
        where: File name for messages.
        limits: Bounds.

    Returns:
        Entries in storage order: non-overlapping, without holes, ending where the data ends.

    Raises:
        MalformedCheckpoint: Any contradiction.
        UnsupportedCheckpoint: A sub-byte dtype.
        CheckpointTooLarge: A bound of ``limits``.
    """
    if not header.startswith(b"{"):
        raise _bad("header does not begin with a brace", f"{where}:header", header[:8].decode("latin-1"), "{")
    content = parse_object(header, where=f"{where}:header", limits=limits, max_bytes=limits.header_bytes)
    _check_metadata(content.pop(_METADATA, {}), where)
    if len(content) > limits.tensors:
        raise CheckpointTooLarge(
            "too many tensors", where=f"{where}:header", got=len(content), expected=f"<= {limits.tensors}"
        )
    entries = [_entry(name, value, where, limits) for name, value in content.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_ranges(entries, data_bytes, where)
    return tuple(entries)


def _check_metadata(value: object, where: str) -> None:
    if type(value) is not dict or not all(type(text) is str for text in value.values()):
        raise MalformedCheckpoint(
            "metadata is no map of strings",
            where=f"{where}:{_METADATA}",
            got=value,
            expected="string values",
            remedy=_REMEDY,
        )


def _entry(name: str, value: object, where: str, limits: Limits) -> Entry:
    """One header entry with its own claims checked; ranges between entries are checked later."""
    place = f"{where}:{name[:100]}"
    check_name(name, where, limits)
    if type(value) is not dict or value.keys() != {"dtype", "shape", "data_offsets"}:
        got = sorted(value) if type(value) is dict else type(value).__name__
        raise _bad("entry has other fields", place, got, "dtype, shape, data_offsets")
    dtype = value["dtype"]
    if type(dtype) is str and dtype in SUB_BYTE:
        raise UnsupportedCheckpoint(
            "sub-byte dtype", where=f"{place}.dtype", got=dtype, expected="at least 8 bits", remedy="Dequantise it."
        )
    if type(dtype) is not str or dtype not in DTYPES:
        raise _bad("unknown dtype", f"{place}.dtype", dtype, "one of " + " ".join(DTYPES))
    shape = check_shape(value["shape"], f"{place}.shape", limits)
    info = TensorInfo(name, shape, DTYPES[dtype], dtype)
    begin, end = _offsets(value["data_offsets"], f"{place}.data_offsets")
    expected = info.numel * info.dtype.itemsize
    if expected >= _U64:
        raise _bad("shape overflows 64 bits", f"{place}.shape", shape, "< 2**64 bytes")
    if end - begin != expected:
        raise _bad("range differs from dtype x shape", f"{place}.data_offsets", f"{end - begin} bytes", expected)
    return Entry(info, begin, end)


def check_name(name: str, where: str, limits: Limits) -> None:
    """Refuse names that no loader means: empty, over-long, or with characters that do not print.

    Raises:
        MalformedCheckpoint: Such a name.
    """
    if not name or not name.isprintable() or len(name.encode("utf-8", "replace")) > limits.name_bytes:
        raise _bad("bad tensor name", f"{where}:header", name, f"1 to {limits.name_bytes} printable bytes")


def check_shape(value: object, place: str, limits: Limits) -> tuple[int, ...]:
    """A shape as a tuple, or an error; bools, floats and negatives are no sizes.

    Raises:
        MalformedCheckpoint: Not a list of sizes below 2**63.
        CheckpointTooLarge: Rank over the limit.
    """
    if not isinstance(value, list | tuple) or not all(type(size) is int and 0 <= size < _U64 // 2 for size in value):
        raise _bad("shape is no list of sizes", place, value, "integers from 0 to 2**63 - 1")
    if len(value) > limits.rank:
        raise CheckpointTooLarge("too many axes", where=place, got=len(value), expected=f"<= {limits.rank}")
    return tuple(value)


def _offsets(value: object, place: str) -> tuple[int, int]:
    if type(value) is not list or len(value) != 2 or not all(type(v) is int and 0 <= v < _U64 for v in value):
        raise _bad("offsets are no pair of integers", place, value, "[begin, end]")
    begin, end = value
    if end < begin:
        raise _bad("offsets run backwards", place, value, "begin <= end")
    return begin, end


def _check_ranges(entries: Sequence[Entry], data_bytes: int, where: str) -> None:
    """Entries, sorted by range, must tile the data section exactly."""
    at = 0
    for entry in entries:
        if entry.begin != at:
            what = "overlaps the tensor before it" if entry.begin < at else "leaves a hole before it"
            raise _bad(f"range {what}", f"{where}:{entry.info.name[:100]}.data_offsets", entry.begin, at)
        at = entry.end
    if at != data_bytes:
        what = "trailing bytes after the last tensor" if at < data_bytes else "data ends before the last tensor does"
        raise _bad(what, f"{where}:data", f"{data_bytes} bytes", f"{at} bytes")


def _bad(what: str, where: str, got: object, expected: object) -> MalformedCheckpoint:
    return MalformedCheckpoint(what, where=where, got=got, expected=expected, remedy=_REMEDY)


class SafetensorsFile:
    """One mapped safetensors file.

    Attributes:
        file: Name and size.
        entries: Name to entry, in storage order.
    """

    def __init__(self, path: Path, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        where = name or path.name
        self.map = MappedFile(path)
        try:
            length = self._header_length(where, limits)
            self.data = _PREFIX + length
            header = self.map.read(_PREFIX, self.data)
            entries = parse_header(header, data_bytes=self.map.size - self.data, where=where, limits=limits)
        except BaseException:
            self.map.close()
            raise
        self.file = CheckpointFile(where, self.map.size)
        self.entries = {entry.info.name: entry for entry in entries}

    def _header_length(self, where: str, limits: Limits) -> int:
        """The length prefix, checked against the file, the format's bound and ours before it is believed."""
        prefix = self.map.read(0, _PREFIX)
        if len(prefix) < _PREFIX:
            raise _bad("too short for a safetensors file", f"{where}:length", f"{len(prefix)} bytes", ">= 10 bytes")
        length = int(struct.unpack("<Q", prefix)[0])
        if length > FORMAT_HEADER_BYTES:
            raise _bad("header length over the format's bound", f"{where}:length", length, f"<= {FORMAT_HEADER_BYTES}")
        if length > self.map.size - _PREFIX:
            raise _bad("header longer than the file", f"{where}:length", length, f"<= {self.map.size - _PREFIX}")
        if length > limits.header_bytes:
            raise CheckpointTooLarge(
                "header too long", where=f"{where}:length", got=length, expected=limits.header_bytes
            )
        return length

    def flat(self, name: str) -> torch.Tensor:
        """All elements of ``name`` as one zero-copy vector."""
        entry = self.entries[name]
        return self.map.flat(self.data + entry.begin, entry.info.numel, entry.info.dtype)

    def blocks(self, name: str, rows: int) -> Iterator[torch.Tensor]:
        """Row blocks over the map; pages behind the reader are dropped every 16 MB."""
        entry = self.entries[name]
        info = entry.info
        if not info.numel:
            return
        if not info.shape:
            yield self.flat(name).reshape(())
            return
        width, start = info.numel // info.rows, self.data + entry.begin
        row_bytes, dropped = width * info.dtype.itemsize, start
        for row in range(0, info.rows, rows):
            count = min(rows, info.rows - row)
            at = start + row * row_bytes
            if at - dropped >= _RELEASE_EVERY:
                self.map.release(dropped, at)
                dropped = at
            yield self.map.flat(at, count * width, info.dtype).view(count, *info.shape[1:])
        self.map.release(dropped, start + info.rows * row_bytes)
