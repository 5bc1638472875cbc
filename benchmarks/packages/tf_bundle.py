"""Reads a TensorFlow checkpoint ("tensor bundle") without TensorFlow, which would be a 600 MB download.

``.index`` is a LevelDB-style table (blocks of prefix-compressed keys, a footer with the index block's handle, see
tensorflow/core/lib/io/format.cc); its values are ``BundleEntryProto`` (tensorflow/core/protobuf/tensor_bundle.proto):
1 dtype, 2 shape, 3 shard, 4 offset, 5 size. ``.data-00000-of-00001`` holds the tensors' little-endian bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TABLE_MAGIC = 0xDB4775248B80FB57
FOOTER_BYTES = 48
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8"}
"""tensorflow.DataType numbers of the types that musicnn uses."""


def tensors(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Name and array of every variable of the nameless bundle in ``folder`` (optimiser slots, counters included)."""
    index = (folder / ".index").read_bytes()
    data = np.memmap(folder / ".data-00000-of-00001", np.uint8, "r")
    for key, value in _table(index):
        if not key:
            continue  # the bundle's own header
        entry = dict(_fields(value))
        dtype = np.dtype(DTYPES[int(entry[1])])
        start, size = int(entry.get(4, 0)), int(entry[5])
        yield key.decode(), data[start : start + size].copy().view(dtype).reshape(_shape(entry.get(2, b"")))


def _table(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    footer = raw[-FOOTER_BYTES:]
    if struct.unpack("<Q", footer[-8:])[0] != TABLE_MAGIC:
        raise ValueError("not a TensorFlow table: wrong magic in the footer")
    _, at = _varint(footer, 0)
    _, at = _varint(footer, at)
    offset, at = _varint(footer, at)
    size, _ = _varint(footer, at)
    for _, handle in _block(raw, offset, size):
        start, at = _varint(handle, 0)
        length, _ = _varint(handle, at)
        yield from _block(raw, start, length)


def _block(raw: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    if raw[offset + size] != 0:
        raise ValueError("compressed table blocks are not read here")
    block = raw[offset : offset + size]
    restarts = struct.unpack("<I", block[-4:])[0]
    end, at, key = len(block) - 4 * (restarts + 1), 0, b""
    while at < end:
        shared, at = _varint(block, at)
        fresh, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + fresh]
        yield key, block[at + fresh : at + fresh + length]
        at += fresh + length


def _shape(message: bytes) -> tuple[int, ...]:
    return tuple(int(dict(_fields(dim)).get(1, 0)) for number, dim in _fields(message) if number == 2)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
        elif wire == 2:
            length, at = _varint(message, at)
            yield number, message[at : at + length]
            at += length
        else:
            width = {1: 8, 5: 4}[wire]
            yield number, message[at : at + width]
            at += width


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
