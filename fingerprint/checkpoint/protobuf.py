"""The protobuf wire format, read in place.

The onnx package parses a model by copying it, so a 2 GB file costs 4 GB and a hostile one whatever it asks for. Weights
are one length-delimited field each, so walking the wire format gives their byte ranges without touching them
(https://protobuf.dev/programming-guides/encoding). Every field walked is counted: time is bounded, not only memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fingerprint.checkpoint.memory import MappedFile
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_VARINT_BYTES = 10


class Field(NamedTuple):
    """One field: a varint's ``value``, or the byte range [begin, end) of anything else."""

    number: int
    wire: int
    value: int
    begin: int
    end: int


class Wire:
    """A mapped protobuf file.

    Args:
        file: The file.
        max_fields: Fields that may be walked over the reader's life.
    """

    def __init__(self, file: MappedFile, *, max_fields: int) -> None:
        self._file, self._left, self._max = file, max_fields, max_fields
        self._data = file.raw(0, file.size)

    @property
    def where(self) -> str:
        """File name for messages."""
        return self._file.name

    def fields(self, begin: int, end: int) -> Iterator[Field]:
        """Fields of the message in ``[begin, end)``.

        Raises:
            MalformedCheckpoint: A truncated or impossible field.
            CheckpointTooLarge: More fields than allowed.
        """
        data, at = self._data, begin
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise CheckpointTooLarge("too many fields", where=self.where, got=f"> {self._max}", expected=self._max)
            key, at = (data[at], at + 1) if data[at] < 0x80 else self._varint(data, at, end)
            wire = key & 7
            if wire == BYTES:
                size, at = (data[at], at + 1) if at < end and data[at] < 0x80 else self._varint(data, at, end)
            elif wire == VARINT:
                value, at = self._varint(data, at, end)
                yield Field(key >> 3, wire, value, at, at)
                continue
            elif wire in _FIXED:
                size = _FIXED[wire]
            else:
                raise self._bad(f"wire type {wire}", at)
            if size > end - at:
                raise self._bad(f"field {key >> 3} of {size} bytes", at)
            yield Field(key >> 3, wire, 0, at, at + size)
            at += size

    def varints(self, field: Field) -> list[int]:
        """A repeated integer field's values: one when unpacked, any number when packed. Signed as int64."""
        if field.wire == VARINT:
            return [_signed(field.value)]
        data, at, found = self._data, field.begin, []
        while at < field.end:
            self._left -= 1
            if self._left < 0:
                raise CheckpointTooLarge(
                    "too many integers", where=self.where, got=f"> {self._max}", expected=self._max
                )
            value, at = self._varint(data, at, field.end)
            found.append(_signed(value))
        return found

    def text(self, field: Field, *, max_bytes: int = 4096) -> str:
        """A string field."""
        if field.wire != BYTES or field.end - field.begin > max_bytes:
            raise self._bad(f"string field {field.number} of {field.end - field.begin} bytes", field.begin)
        try:
            return str(self._data[field.begin : field.end], "utf-8")
        except UnicodeDecodeError:
            raise self._bad(f"string field {field.number} that is no UTF-8", field.begin) from None

    def _varint(self, data: memoryview, at: int, end: int) -> tuple[int, int]:
        if at < end and data[at] < 0x80:  # nine in ten
            return data[at], at + 1
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            if at >= end:
                break
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
        raise self._bad("truncated or endless varint", at)

    def _bad(self, got: str, at: int) -> MalformedCheckpoint:
        return MalformedCheckpoint(
            "not a protobuf message",
            where=f"{self.where}:byte {at}",
            got=got,
            expected="a field that fits its message",
            remedy="Export the model again.",
        )


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
