"""torch files: every tensor at its place without running the pickle, and nothing but tensors."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.checkpoint import open_checkpoint
from fingerprint.checkpoint.limits import DEFAULT_LIMITS
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.pickle_scan import check_pickle
from fingerprint.checkpoint.zip_directory import inflate, read_directory
from fingerprint.errors import CheckpointError, MalformedCheckpoint, UnsupportedCheckpoint
from tests.fingerprint.checkpoint.corpus import tensors, torch_bytes, zipped
from tests.fingerprint.checkpoint.test_safetensors import equal


def state_dict() -> dict[str, torch.Tensor]:
    """Views, scalars, empties, parameters and small dtypes, as real state dicts have them."""
    x = torch.randn(300, 6)
    return OrderedDict(
        plain=x,
        turned=x.t(),
        part=x[1:3],
        parameter=torch.nn.Parameter(torch.ones(3).bfloat16()),
        scalar=torch.tensor(2.0),
        empty=torch.empty(0, 3),
        fp8=torch.randn(4).to(torch.float8_e4m3fn),
        flags=torch.tensor([True, False]),
        counts=torch.arange(3).to(torch.uint16),
    )


def test_state_dict_comes_back_bit_for_bit(tmp_path: Path) -> None:
    expected = state_dict()
    torch.save({"state_dict": expected, "step": 3, "optimizer": {"state": {0: torch.ones(2)}}}, tmp_path / "model.pt")
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.format == "torch"
        assert list(checkpoint.tensors) == list(expected)
        for name, x in expected.items():
            assert equal(checkpoint.tensor(name), x), name
            joined = [block.clone() for block in checkpoint.blocks(name, rows=7)]
            assert not joined or equal(torch.cat(joined) if x.dim() else joined[0], x), name
        assert bytes(checkpoint.raw("plain") or b"") == expected["plain"].numpy().tobytes()
        assert checkpoint.raw("turned") is None


def test_shards_and_their_index(tmp_path: Path) -> None:
    content = tensors()
    names = {"a.weight": "pytorch_model-1.bin", "b.weight": "pytorch_model-2.bin", "b.bias": "pytorch_model-2.bin"}
    for file in set(names.values()):
        torch.save({name: content[name] for name in names if names[name] == file}, tmp_path / file)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}))
    with open_checkpoint(tmp_path) as checkpoint:
        assert all(equal(checkpoint.tensor(name), x) for name, x in content.items())


@pytest.mark.parametrize(
    "content",
    [
        [torch.ones(2)],
        {"a": torch.ones(1).expand(1000, 1000)},
        {"a": torch.ones(2, 2).to_sparse()},
    ],
    ids=["list", "expanded", "sparse"],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_anything_but_dense_tensors_is_refused(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "model.bin")
    with pytest.raises(UnsupportedCheckpoint):
        open_checkpoint(tmp_path)


def test_a_storage_that_claims_more_than_its_member_is_refused(tmp_path: Path) -> None:
    content = torch_bytes({"a": torch.arange(100, dtype=torch.float32)})
    lying = content.replace(b"K\x64tq", b"K\xc8tq")  # numel of the storage: 100 becomes 200
    assert lying != content
    lying = lying.replace(b"K\x64\x85q", b"K\xc8\x85q")  # and the shape with it
    (tmp_path / "model.bin").write_bytes(lying)
    with pytest.raises(CheckpointError):
        open_checkpoint(tmp_path)


_GLOBALS = st.sampled_from(
    ["os system", "builtins eval", "torch.hub load", "torch _utils", "collections Counter", "x y"]
)


@given(_GLOBALS)
def test_globals_outside_the_list_are_named_and_refused(name: str) -> None:
    module, attribute = name.split(" ")
    data = b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + b")R."
    with pytest.raises(UnsupportedCheckpoint, match=name):
        check_pickle(data, where="x", limits=DEFAULT_LIMITS)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.builds(lambda cut: pickle.dumps({"a": [1, "b"]}, 2)[:cut], st.integers(0, 40)))
def test_any_bytes_as_a_pickle_are_taken_or_refused(data: bytes) -> None:
    with contextlib.suppress(CheckpointError):
        check_pickle(data, where="x", limits=DEFAULT_LIMITS)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_mutated_zip_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(zipped({"a/data.pkl": b"x" * 50, "a/data/0": b"\1" * 70, "b.txt": b"hello" * 40}))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("zip") / "x.zip"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, 2 * len(content)))]))
    file = MappedFile(path)
    try:
        for member in read_directory(file, DEFAULT_LIMITS):
            assert sum(map(len, inflate(file, member))) == member.size
    except CheckpointError:
        pass
    file.close()


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """Fifield's bomb: two directory records, one local header."""
    content = zipped({"aaaa": b"\0" * 10_000, "bbbb": b"\0" * 10_000})
    end = content.rfind(b"PK\x05\x06")
    first = content.find(b"PK\x01\x02")
    second = content.find(b"PK\x01\x02", first + 4)
    both = bytearray(content)
    both[second:end] = content[first:second]
    (tmp_path / "x.zip").write_bytes(bytes(both))
    with pytest.raises(MalformedCheckpoint):
        read_directory(MappedFile(tmp_path / "x.zip"), DEFAULT_LIMITS)
