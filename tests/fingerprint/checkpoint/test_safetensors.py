"""Safetensors: equal to the library where it is honest, stricter where it is not, and flat in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load, save, save_file

from fingerprint.checkpoint import open_checkpoint
from fingerprint.checkpoint.limits import DEFAULT_LIMITS
from fingerprint.checkpoint.safetensors import DTYPES, parse_header
from fingerprint.errors import CheckpointError, CheckpointUnavailable
from tests.fingerprint.checkpoint.corpus import raw_safetensors, sharded, tensors


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same dtype, shape and bytes; NaN equals itself."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bytes(as_bytes(a)) == bytes(as_bytes(b))


def as_bytes(x: torch.Tensor) -> bytes:
    """The little-endian bytes of a tensor."""
    x = x.detach().contiguous().flatten()
    return x.view(torch.uint8).numpy().tobytes() if x.numel() else b""


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d not in (torch.bool, torch.float8_e8m0fnu)])
def test_every_dtype_comes_back_bit_for_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    bits = torch.randint(0, 256, (5, 3 * dtype.itemsize), dtype=torch.uint8)
    x = bits.view(dtype)
    (tmp_path / "model.safetensors").write_bytes(_saved({"x": x}, dtype))
    with open_checkpoint(tmp_path) as checkpoint:
        assert equal(checkpoint.tensor("x"), x)
        assert bytes(checkpoint.raw("x") or b"") == as_bytes(x)


def _saved(content: dict[str, torch.Tensor], dtype: torch.dtype) -> bytes:
    """The library's file, or one by hand for dtypes its writer lacks."""
    name = next(name for name, known in DTYPES.items() if known == dtype)
    x = content["x"]
    header = {"x": {"dtype": name, "shape": list(x.shape), "data_offsets": [0, x.nbytes]}}
    return raw_safetensors(json.dumps(header).encode(), as_bytes(x))


def test_scalars_empty_and_boolean_tensors(tmp_path: Path) -> None:
    content = {"s": torch.tensor(3.0), "e": torch.zeros(0, 4), "w": torch.zeros(4, 0), "b": torch.tensor([True, False])}
    save_file(content, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        for name, x in content.items():
            assert equal(checkpoint.tensor(name), x), name
        assert [tuple(b.shape) for b in checkpoint.blocks("s")] == [()]
        assert list(checkpoint.blocks("e")) == []


def test_blocks_are_consecutive_rows_without_copying(tmp_path: Path) -> None:
    x = torch.randn(300, 2, 3)
    save_file({"x": x}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        blocks = list(checkpoint.blocks("x", rows=128))
        assert [len(block) for block in blocks] == [128, 128, 44]
        assert blocks[1].data_ptr() - blocks[0].data_ptr() == 128 * 6 * 4
        assert equal(torch.cat(blocks), x)


def test_a_block_outlives_its_checkpoint(tmp_path: Path) -> None:
    """By contract it should not be used; by mistake it must not end the process."""
    x = torch.randn(300, 4)
    save_file({"x": x}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        block, raw = next(checkpoint.blocks("x", rows=300)), checkpoint.raw("x")
    assert equal(block, x)
    assert raw is not None
    assert raw.readonly
    assert bytes(raw) == as_bytes(x)


def test_misaligned_tensors_are_read_too(tmp_path: Path) -> None:
    x, y = torch.arange(3, dtype=torch.uint8), torch.randn(4, 5)
    header = {
        "x": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "y": {"dtype": "F32", "shape": [4, 5], "data_offsets": [3, 83]},
    }
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw_safetensors(json.dumps(header).encode(), as_bytes(x) + as_bytes(y)))
    with open_checkpoint(path) as checkpoint:
        assert equal(checkpoint.tensor("y"), y)


def test_bytes_that_are_no_booleans_are_refused(tmp_path: Path) -> None:
    header = {"x": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}
    (tmp_path / "model.safetensors").write_bytes(raw_safetensors(json.dumps(header).encode(), b"\0\1\2"))
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(CheckpointError, match="neither 0 nor 1"):
        checkpoint.tensor("x")


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    with open_checkpoint(sharded(tmp_path)) as checkpoint:
        assert set(checkpoint.tensors) == set(tensors())
        assert all(equal(checkpoint.tensor(name), x) for name, x in tensors().items())
        assert [file.name for file in checkpoint.files] == [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ]


def test_links_of_the_hub_cache_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / ("0" * 40)
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    save_file(tensors(), blobs / "digest")
    (snapshot / "model.safetensors").symlink_to("../../blobs/digest")
    with open_checkpoint(snapshot) as checkpoint:
        assert set(checkpoint.tensors) == set(tensors())


def test_other_kinds_beside_safetensors_are_ignored(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "model.safetensors")
    torch.save({"other": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    with open_checkpoint(tmp_path) as checkpoint:
        assert set(checkpoint.tensors) == set(tensors())


def test_config_is_read_from_beside_the_weights(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.config == {"hidden_size": 4}


def test_absent_paths_are_unavailable_not_guilty(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(CheckpointUnavailable):
            open_checkpoint(path)


_PEAK = """
import resource, sys
from fingerprint.checkpoint import open_checkpoint
with open_checkpoint(sys.argv[1]) as checkpoint:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = sum(int(b.view(dtype=__import__("torch").uint8)[0, 0]) for b in checkpoint.blocks("x"))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_reading_a_large_tensor_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    size = 400 << 20
    header = {"x": {"dtype": "BF16", "shape": [size // 8192, 4096], "data_offsets": [0, size]}}
    with path.open("wb") as file:
        file.write(raw_safetensors(json.dumps(header).encode()))
        file.truncate(file.tell() + size)
    done = subprocess.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64


# --- fuzz: whatever we open, the library opens as the same tensors; whatever we refuse is a CheckpointError -----------


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_files_open_as_the_library_reads_them_or_are_refused(
    tmp_path_factory: object, data: st.DataObject
) -> None:
    content = bytearray(save(tensors()))
    header_end = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, header_end - 1))
        content[at] = data.draw(st.integers(0, 255) | st.sampled_from(list(b'0123456789{}[]",:-eE. ')))
    _agree(bytes(content))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 400), st.binary(max_size=8))
def test_cut_and_padded_files_are_refused_or_equal(cut: int, tail: bytes) -> None:
    content = save(tensors())
    _agree(content[: max(0, len(content) - cut)] + tail)


_SIZES = st.integers(-1, 4) | st.sampled_from([2**31, 2**32, 2**62, 2**63, 2**64]) | st.booleans() | st.just(2.0)
_ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*DTYPES, "F4", "f32"]),
        "shape": st.lists(_SIZES, max_size=3),
        "data_offsets": st.lists(st.integers(-1, 24), min_size=1, max_size=3),
    }
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), _ENTRIES, max_size=3), st.integers(0, 24))
def test_random_headers_are_refused_or_read_as_the_library_does(header: dict[str, object], size: int) -> None:
    _agree(raw_safetensors(json.dumps(header).encode(), b"\0" * size))


def _agree(content: bytes) -> None:
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    try:
        if length > len(content) - 8:
            return
        entries = parse_header(header, data_bytes=len(content) - 8 - length, where="x", limits=DEFAULT_LIMITS)
    except CheckpointError:
        return
    try:
        known = load(content)
    except (SafetensorError, KeyError, AttributeError, TypeError):  # dtypes its torch front end lacks
        assert any(
            entry.info.stored.startswith(("F8_E8", "C64", "U16", "U32", "U64")) or "FNUZ" in entry.info.stored
            for entry in entries
        )
        return
    assert {entry.info.name: (entry.info.shape, entry.info.dtype) for entry in entries} == {
        name: (tuple(x.shape), x.dtype) for name, x in known.items()
    }
