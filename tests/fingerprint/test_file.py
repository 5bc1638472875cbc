"""The fingerprint file: same in, same out; damage and strangers are refused; the format never drifts silently.

The golden file is made anew by ``UPDATE_GOLDEN=1 pytest tests/fingerprint/test_file.py``: a change of its contents is
a change of the algorithm, and must change its name.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint import file
from fingerprint.columns import encode
from fingerprint.errors import CheckpointUnavailable, FingerprintFileError
from fingerprint.fingerprint import Fingerprint
from fingerprint.plan import ALGORITHM
from fingerprint.scan import scan

from .decoders import random_decoder
from .memory import MemoryCheckpoint

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "decoder.fingerprint"


def _golden_model() -> MemoryCheckpoint:
    """Integer arithmetic only, so that every machine makes the same weights."""
    decoder = replace(random_decoder(0), layers=1)
    state, weights = 1, {}
    for name, like in decoder.weights.items():
        if name.startswith("model.layers.1."):
            continue
        count = like.numel()
        values = (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state)) >> np.uint64(52)
        state += count
        weights[name] = (torch.from_numpy(values.astype(np.float64)).reshape(like.shape) - 2047.5) / 2048
    tokens = [f"token {i}" for i in range(decoder.vocab)]
    return replace(decoder, weights=weights).checkpoint(tokens=tokens)


@pytest.fixture(scope="module")
def fingerprint() -> Fingerprint:
    return scan(_golden_model())


@pytest.fixture(scope="module")
def data(fingerprint: Fingerprint) -> bytes:
    return file.dumps(fingerprint)


def test_golden(fingerprint: Fingerprint) -> None:
    """Digests must agree to the bit, floats to what another processor's order of summation may change."""
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        file.save(fingerprint, GOLDEN)
    golden = file.load(GOLDEN)
    (document, arrays), (expected, values) = encode(fingerprint), encode(golden)
    assert document == expected
    assert arrays.keys() == values.keys()
    for name, array in arrays.items():
        assert array.dtype == values[name].dtype
        if array.dtype.kind == "f":
            loose = 5e-3 if array.dtype == np.float16 else 2e-4
            np.testing.assert_allclose(array, values[name], rtol=loose, atol=loose, err_msg=name)
        else:
            np.testing.assert_array_equal(array, values[name], err_msg=name)


def test_round_trip_is_exact(fingerprint: Fingerprint, data: bytes, tmp_path: Path) -> None:
    file.save(fingerprint, tmp_path / "a.fingerprint")
    assert (tmp_path / "a.fingerprint").read_bytes() == data
    again = file.load(tmp_path / "a.fingerprint")
    assert file.dumps(again) == data
    assert again.meta == fingerprint.meta
    assert again.tensors == fingerprint.tensors
    assert list(again.slots) == list(fingerprint.slots)
    assert [p.name for p in tmp_path.iterdir()] == ["a.fingerprint"]


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnavailable):
        file.load(tmp_path / "nothing")


@pytest.mark.parametrize("size", [0, 4, 8, 9, 100, 5000, -1])
def test_truncation_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(FingerprintFileError):
        file.loads(data[:size])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_flipped_byte_is_refused(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    broken = bytearray(data)
    broken[at] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(FingerprintFileError):
        file.loads(bytes(broken))


def _reforged(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with a changed document and a checksum that fits it again: what an adversary would send."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    document = json.loads(header["__metadata__"]["fingerprint"])
    change(document)
    document.pop("sha256")
    _, arrays = file._open(data, "x")
    document["sha256"] = file._checksum(document, arrays)
    header["__metadata__"]["fingerprint"] = file._canonical(document)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _set(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("algorithm", value="fingerprint-v0"),
        _set("schema", value="other"),
        _set("body", "meta", "algorithm", value="fingerprint-v0"),
        _set("body", "meta", "parameters", value=1.5),
        _set("body", "meta", "extra", value=1),
        _set("body", "slots", 0, 0, value=["no role", 0, -1, ""]),
        _set("body", "slots", 0, 1, value=[-1, 4]),
        _set("body", "slots", 0, 2, value=10**6),
        _set("body", "slots", 0, 2, value=-1),
        _set("body", "slots", 0, value=[]),
        _set("body", "slots", value=[]),
        _set("body", "slots", value={}),
        _set("body", "layers", value=None),
        _set("body", "layers", 0, 1, 1, value=10**9),
        _set("body", "layers", 0, 1, 1, value=-1),
        _set("body", "tokens", 0, 0, value="other"),
        _set("body", "probe_gram", value=["other"]),
        _set("body", "tensors", 0, 1, value="shape"),
        _set("body", "tensors", value=[]),
    ],
)
def test_a_well_signed_contradiction_is_refused(data: bytes, change: Callable[[dict[str, Any]], None]) -> None:
    assert file.loads(_reforged(data, lambda document: None)).algorithm == ALGORITHM
    with pytest.raises(FingerprintFileError):
        file.loads(_reforged(data, change))


def test_a_safetensors_file_of_weights_is_no_fingerprint(tmp_path: Path) -> None:
    import safetensors.numpy

    safetensors.numpy.save_file({"a": np.zeros(3, dtype=np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(FingerprintFileError, match="no fingerprint file"):
        file.load(tmp_path / "model.safetensors")
