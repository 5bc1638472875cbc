"""The bundle reader is our own, so it is held to TensorFlow's own record of the variables' sizes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from benchmarks.packages import tf_bundle


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A table block whose keys share prefixes, as TensorFlow writes them; uncompressed, with its trailer."""
    out, previous = b"", b""
    for key, value in entries:
        shared = 0
        while shared < min(len(key), len(previous)) and key[shared] == previous[shared]:
            shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        previous = key
    return out + struct.pack("<II", 0, 1)


def entry(dtype: int, shape: tuple[int, ...], offset: int, size: int) -> bytes:
    dims = b"".join(b"\x12" + varint(len(d)) + d for d in (b"\x08" + varint(n) for n in shape))
    return (
        b"\x08"
        + bytes([dtype])
        + b"\x12"
        + varint(len(dims))
        + dims
        + b"\x20"
        + varint(offset)
        + b"\x28"
        + varint(size)
    )


@pytest.fixture
def bundle(tmp_path):
    a, b = np.arange(6, dtype="<f4").reshape(2, 3), np.array([7], dtype="<i8")
    data = block([(b"", b"\x08\x01"), (b"conv/bias", entry(9, (1,), 24, 8)), (b"conv/kernel", entry(1, (2, 3), 0, 24))])
    handle = varint(0) + varint(len(data))
    index_at = len(data) + 5
    index = block([(b"d", handle)])
    footer = varint(0) + varint(0) + varint(index_at) + varint(len(index))
    footer = footer.ljust(40, b"\0") + struct.pack("<Q", tf_bundle.TABLE_MAGIC)
    (tmp_path / ".index").write_bytes(data + bytes(5) + index + bytes(5) + footer)
    (tmp_path / ".data-00000-of-00001").write_bytes(a.tobytes() + b.tobytes())
    return tmp_path


def test_names_shapes_and_values_come_out(bundle):
    found = dict(tf_bundle.tensors(bundle))
    assert list(found) == ["conv/bias", "conv/kernel"]
    np.testing.assert_array_equal(found["conv/kernel"], [[0, 1, 2], [3, 4, 5]])
    assert found["conv/bias"].tolist() == [7]


def test_another_file_is_refused(bundle):
    (bundle / ".index").write_bytes(bytes(100))
    with pytest.raises(ValueError, match="wrong magic"):
        dict(tf_bundle.tensors(bundle))
