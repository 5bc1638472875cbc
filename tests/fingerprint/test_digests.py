from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from fingerprint.checkpoint import open_checkpoint
from fingerprint.digests import TensorDigests
from fingerprint.errors import MalformedCheckpoint
from fingerprint.scan import scan

DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float64]


def drawn(shape, dtype, seed):
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.fixture
def folder(tmp_path):
    """Two shards with an empty tensor in the middle, a scalar, a tensor of booleans."""
    first = {"a": drawn((3, 5), torch.float32, 1), "empty": torch.zeros(0, 7), "scalar": torch.tensor(2.5)}
    second = {"flags": drawn((9,), torch.bool, 2), "z": drawn((40, 33), torch.bfloat16, 3)}
    save_file(first, tmp_path / "model-00001-of-00002.safetensors")
    save_file(second, tmp_path / "model-00002-of-00002.safetensors")
    weights = {name: f"model-0000{i}-of-00002.safetensors" for i, t in ((1, first), (2, second)) for name in t}
    index = {"metadata": {"total_size": 0}, "weight_map": weights}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def stream(digests, folder, size):
    for file in sorted(folder.glob("*.safetensors")):
        sink = digests.sink(file.name)
        data = file.read_bytes()
        for at in range(0, len(data), size):
            sink.update(memoryview(data)[at : at + size])


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_digests_from_streamed_files_are_those_of_the_scan(folder, size):
    with open_checkpoint(folder) as checkpoint:
        digests = TensorDigests(checkpoint)
        stream(digests, folder, size)
        assert digests.finish() == {entry.name: entry.digest for entry in scan(checkpoint).tensors}


def test_what_is_not_streamed_is_read(folder):
    with open_checkpoint(folder) as checkpoint:
        assert TensorDigests(checkpoint).finish() == {e.name: e.digest for e in scan(checkpoint).tensors}


def test_kept_digests_stand_only_for_files_that_were_not_streamed(folder):
    lie = {"a": "00" * 32, "stranger": "11" * 32}
    name = "model-00001-of-00002.safetensors"
    with open_checkpoint(folder) as checkpoint:
        digests = TensorDigests(checkpoint)
        assert digests.finish({name: lie})["a"] == "00" * 32
        stream(digests, folder, 50)
        assert digests.finish({name: lie})["a"] != "00" * 32
        assert "stranger" not in digests.finish({name: lie})


def test_a_file_other_than_the_one_opened_is_refused(folder):
    file = folder / "model-00002-of-00002.safetensors"
    data = bytearray(file.read_bytes())
    with open_checkpoint(folder) as checkpoint:
        digests = TensorDigests(checkpoint)
        digests.sink(file.name).update(memoryview(data)[:-1])
        with pytest.raises(MalformedCheckpoint):
            digests.finish()
        data[9] ^= 1
        with pytest.raises(MalformedCheckpoint):
            digests.sink(file.name).update(memoryview(data))


@settings(max_examples=25, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=6),
    dtype=st.sampled_from(DTYPES),
    size=st.integers(1, 200),
)
def test_any_cut_of_any_file_gives_the_same_digests(tmp_path_factory, shapes, dtype, size):
    folder = tmp_path_factory.mktemp("any")
    tensors = {f"t{i}": drawn(tuple(shape), dtype, i) for i, shape in enumerate(shapes)}
    save_file(tensors, folder / "model.safetensors")
    with open_checkpoint(folder) as checkpoint:
        digests = TensorDigests(checkpoint)
        stream(digests, folder, size)
        assert digests.finish() == TensorDigests(checkpoint).finish()
