"""Checkpoints that must be refused, each with the error it must raise; the command's tests reuse it.

Every case is one way in which a file can lie that two readers, or a reader and its memory, would disagree about
(2-weights, section 1).
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from fingerprint.errors import CheckpointError, CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint


@dataclass(frozen=True)
class HostileCase:
    """A refused checkpoint: what it is called, where it lies, which error it must raise and what that must name."""

    name: str
    path: Path
    error: type[CheckpointError]
    names: str = ""


Builder = Callable[[Path], Path]
_CASES: list[tuple[str, type[CheckpointError], str, Builder]] = []


def hostile_cases(tmp: Path) -> Iterator[HostileCase]:
    """Write every case under ``tmp``, each in a folder of its own."""
    for name, error, names, build in _CASES:
        folder = tmp / name
        folder.mkdir(parents=True)
        yield HostileCase(name, build(folder), error, names)


def case_names() -> list[str]:
    """Names of all cases, in order."""
    return [name for name, *_ in _CASES]


def hostile_case(name: str, tmp: Path) -> HostileCase:
    """Write one case under ``tmp``."""
    error, names, build = next((e, n, b) for found, e, n, b in _CASES if found == name)
    tmp.mkdir(parents=True, exist_ok=True)
    return HostileCase(name, build(tmp), error, names)


def _case(name: str, error: type[CheckpointError], names: str) -> Callable[[Builder], Builder]:
    def add(build: Builder) -> Builder:
        _CASES.append((name, error, names, build))
        return build

    return add


def tensors() -> dict[str, torch.Tensor]:
    """A small honest checkpoint."""
    generator = torch.Generator().manual_seed(7)
    return {
        "a.weight": torch.randn(8, 4, generator=generator),
        "b.weight": torch.randn(6, 4, generator=generator).to(torch.bfloat16),
        "b.bias": torch.randn(6, generator=generator),
    }


# --- safetensors headers ---------------------------------------------------------------------------------------------


def raw_safetensors(header: bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file from its parts, with a length prefix that may lie."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def _file(folder: Path, content: bytes, name: str = "model.safetensors") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _header(
    name: str, header: object, data: int = 0, *, error: type[CheckpointError] = MalformedCheckpoint, names: str
) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    _CASES.append((name, error, names, lambda folder: _file(folder, raw_safetensors(text, b"\1" * data))))


def _entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8), **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def _file_case(
    name: str, content: Callable[[], bytes], *, error: type[CheckpointError] = MalformedCheckpoint, names: str
) -> None:
    _CASES.append((name, error, names, lambda folder: _file(folder, content())))


_file_case("empty-file", lambda: b"", names="model.safetensors:length")
_file_case("seven-bytes", lambda: b"\0" * 7, names="model.safetensors:length")
_file_case("length-over-file", lambda: raw_safetensors(b"{}", length=1000), names="model.safetensors:length")
_file_case("length-over-100mb", lambda: raw_safetensors(b"{}", length=200_000_000), names="model.safetensors:length")
_file_case("length-all-ones", lambda: raw_safetensors(b"{}", length=2**64 - 1), names="model.safetensors:length")
_file_case(
    "header-of-spaces-over-limit",
    lambda: raw_safetensors(b"{}" + b" " * 20_000_000),
    error=CheckpointTooLarge,
    names="model.safetensors:length",
)
_file_case(
    "header-of-empty-objects",
    lambda: raw_safetensors(b'{"a":[' + b"{}," * 5_000_000 + b"{}]}"),
    error=CheckpointTooLarge,
    names="model.safetensors:header",
)
_file_case(
    "header-of-numbers",
    lambda: raw_safetensors(b'{"a":[' + b"7," * 7_000_000 + b"7]}"),
    error=CheckpointTooLarge,
    names="model.safetensors:header",
)
_file_case(
    "depth-bomb",
    lambda: raw_safetensors(b'{"a":' + b"[" * 500_000),
    error=CheckpointTooLarge,
    names="model.safetensors:header",
)
_file_case(
    "depth-40",
    lambda: raw_safetensors(b'{"a":' + b"[" * 40 + b"]" * 40 + b"}"),
    error=CheckpointTooLarge,
    names="header",
)
_file_case("truncated-data", lambda: save(tensors())[:-3], names="model.safetensors:data")
_file_case("trailing-bytes", lambda: save(tensors()) + b"\0", names="model.safetensors:data")
_file_case("truncated-header", lambda: save(tensors())[:40], names="model.safetensors:length")

_header("not-json", b"hello", names="model.safetensors:header")
_header("not-utf8", b'{"\xff\xfe": 1}', names="model.safetensors:header")
_header("utf16", '{"a": 1}'.encode("utf-16"), names="model.safetensors:header")
_header("space-before-header", b" {}", names="model.safetensors:header")
_header("array-header", [], names="model.safetensors:header")
_header("string-header", "hello", names="model.safetensors:header")
_header("two-documents", b"{} {}", names="model.safetensors:header")
_header("duplicate-tensor", b'{"a":%(e)b,"a":%(e)b}' % {b"e": json.dumps(_entry()).encode()}, 8, names="header:a")
_header(
    "duplicate-field",
    b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    8,
    names="header:dtype",
)
_header("duplicate-metadata", b'{"__metadata__":{"format":"pt","format":"pt"}}', names="header:format")
_header(
    "duplicate-escaped-key", b'{"a":%(e)b,"\\u0061":%(e)b}' % {b"e": json.dumps(_entry()).encode()}, 8, names="header:a"
)
_header("lone-surrogate", b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8, names="header")
_header("metadata-number", {"__metadata__": {"format": 1}}, names="__metadata__")
_header("metadata-list", {"__metadata__": ["pt"]}, names="__metadata__")
_header("entry-is-list", {"a": [1, 2]}, names="model.safetensors:a")
_header("entry-misses-offsets", {"a": {"dtype": "F32", "shape": [2]}}, 8, names="model.safetensors:a")
_header("entry-has-more", {"a": _entry(strides=[1])}, 8, names="model.safetensors:a")
_header("unknown-dtype", {"a": _entry("F33")}, 8, names="a.dtype")
_header("dtype-is-number", {"a": _entry(4)}, 8, names="a.dtype")
_header("sub-byte-dtype", {"a": _entry("F4", (4,), (0, 2))}, 2, error=UnsupportedCheckpoint, names="a.dtype")
_header("negative-shape", {"a": _entry(shape=(-2, -1))}, 8, names="a.shape")
_header("bool-shape", {"a": _entry(shape=(True, 2))}, 8, names="a.shape")
_header("float-shape", {"a": _entry(shape=(2.0,))}, 8, names="a.shape")
_header("string-shape", {"a": _entry(shape="2")}, 8, names="a.shape")
_header("shape-is-null", {"a": _entry(shape=None)}, 8, names="a.shape")
_header("overflowing-shape", {"a": _entry(shape=(2**32, 2**32))}, 8, names="a.shape")
_header("overflow-to-zero-shape", {"a": _entry(shape=(2**62, 4), offsets=(0, 0))}, names="a.shape")
_header("huge-shape", {"a": _entry(shape=(2**40, 2**20))}, 8, names="a.data_offsets")
_header("rank-bomb", {"a": _entry(shape=(1,) * 9000 + (2,))}, 8, error=CheckpointTooLarge, names="a.shape")
_header("wrong-size", {"a": _entry(shape=(3,))}, 8, names="a.data_offsets")
_header("nan-offset", b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[NaN,8]}}', 8, names="header")
_header("infinite-offset", b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,Infinity]}}', 8, names="header")
_header("float-offset", {"a": _entry(offsets=(0.0, 8.0))}, 8, names="a.data_offsets")
_header("bool-offset", {"a": _entry("U8", (1,), (False, True))}, 1, names="a.data_offsets")
_header("negative-offset", {"a": _entry(offsets=(-8, 0))}, 8, names="a.data_offsets")
_header("reversed-offsets", {"a": _entry(offsets=(8, 0))}, 8, names="a.data_offsets")
_header("three-offsets", {"a": _entry(offsets=(0, 8, 16))}, 8, names="a.data_offsets")
_header("offset-over-64-bits", {"a": _entry(offsets=(2**64, 2**64 + 8))}, 8, names="a.data_offsets")
_header(
    "endless-integer", b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,' + b"9" * 5000 + b"]}}", 8, names="header"
)
_header("range-past-end", {"a": _entry(offsets=(0, 8))}, 4, names="model.safetensors:data")
_header("hole-first", {"a": _entry(offsets=(8, 16))}, 16, names="a.data_offsets")
_header("hole-between", {"a": _entry(), "b": _entry(offsets=(16, 24))}, 24, names="b.data_offsets")
_header("overlap", {"a": _entry(), "b": _entry(offsets=(4, 12))}, 12, names="b.data_offsets")
_header("aliased", {"a": _entry(), "b": _entry()}, 8, names="b.data_offsets")
_header(
    "inside-another",
    {"a": _entry(shape=(4,), offsets=(0, 16)), "b": _entry(offsets=(4, 12))},
    16,
    names="b.data_offsets",
)
_header("empty-name", {"": _entry()}, 8, names="header")
_header("control-in-name", {"a\x1b[2J": _entry()}, 8, names="header")
_header("endless-name", {"a" * 5000: _entry()}, 8, names="header")


# --- folders and indexes ---------------------------------------------------------------------------------------------


def sharded(folder: Path, *, weight_map: dict[str, str] | None = None, index: bytes | None = None) -> Path:
    """An honest two-shard folder, with an index that may lie."""
    content = tensors()
    first = {"a.weight": content["a.weight"]}
    second = {name: content[name] for name in ("b.weight", "b.bias")}
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, part in zip(names, (first, second), strict=True):
        _file(folder, save(part), name)
    honest = {key: name for name, part in zip(names, (first, second), strict=True) for key in part}
    text = json.dumps({"metadata": {}, "weight_map": honest if weight_map is None else weight_map}).encode()
    _file(folder, text if index is None else index, "model.safetensors.index.json")
    return folder


_ONE, _TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
_MAP = {"a.weight": _ONE, "b.weight": _TWO, "b.bias": _TWO}


def _index(name: str, names: str, weight_map: object, *, error: type[CheckpointError] = MalformedCheckpoint) -> None:
    text = json.dumps({"weight_map": weight_map}).encode()
    _CASES.append((name, error, names, lambda folder: sharded(folder, index=text)))


_index("index-absent-shard", "weight_map", {**_MAP, "b.bias": "model-00003-of-00003.safetensors"})
_index("index-absent-tensor", "weight_map", {**_MAP, "c.weight": _TWO})
_index("index-omits-tensor", "weight_map", {k: v for k, v in _MAP.items() if k != "b.bias"})
_index("index-sends-elsewhere", "weight_map.b.bias", {**_MAP, "b.bias": _ONE})
_index("index-leaves-folder", "weight_map", {**_MAP, "b.bias": "../model.safetensors"})
_index("index-absolute-path", "weight_map", {**_MAP, "b.bias": "/etc/passwd"})
_index("index-dot-dot", "weight_map", {**_MAP, "b.bias": ".."})
_index("index-nul", "weight_map", {**_MAP, "b.bias": "model\0.safetensors"})
_index("index-other-kind", "weight_map", {**_MAP, "b.bias": "config.json"}, error=UnsupportedCheckpoint)
_index("index-of-numbers", "weight_map", {"a.weight": 1})
_index("index-list", "weight_map", [1])
_index("index-empty", "weight_map", {})


@_case("index-duplicate-key", MalformedCheckpoint, "index.json:a.weight")
def _(folder: Path) -> Path:
    return sharded(folder, index=b'{"weight_map": {"a.weight": "%(o)b", "a.weight": "%(o)b"}}' % {b"o": _ONE.encode()})


@_case("index-not-json", MalformedCheckpoint, "index.json")
def _(folder: Path) -> Path:
    return sharded(folder, index=b"{")


@_case("stray-file", MalformedCheckpoint, "model-4bit.safetensors")
def _(folder: Path) -> Path:
    _file(folder, save(tensors()), "model-4bit.safetensors")
    return sharded(folder)


@_case("single-beside-shards", MalformedCheckpoint, "model.safetensors")
def _(folder: Path) -> Path:
    _file(folder, save(tensors()))
    return sharded(folder)


@_case("two-files-no-index", MalformedCheckpoint, "expected one file")
def _(folder: Path) -> Path:
    (sharded(folder) / "model.safetensors.index.json").unlink()
    return folder


@_case("two-indexes", MalformedCheckpoint, "several indexes")
def _(folder: Path) -> Path:
    sharded(folder)
    _file(folder, (folder / "model.safetensors.index.json").read_bytes(), "other.safetensors.index.json")
    return folder


@_case("tensor-in-two-shards", MalformedCheckpoint, "a.weight")
def _(folder: Path) -> Path:
    sharded(folder)
    _file(folder, save(tensors()), _TWO)
    return folder


@_case("truncated-shard", MalformedCheckpoint, f"{_TWO}:data")
def _(folder: Path) -> Path:
    path = sharded(folder) / _TWO
    path.write_bytes(path.read_bytes()[:-5])
    return folder


@_case("shard-links-out", MalformedCheckpoint, "link leaves the folder")
def _(folder: Path) -> Path:
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir(), outside.mkdir()
    sharded(inside)
    (inside / _TWO).rename(outside / _TWO)
    os.symlink(outside / _TWO, inside / _TWO)
    return inside


@_case("single-links-out", MalformedCheckpoint, "link leaves the folder")
def _(folder: Path) -> Path:
    inside = folder / "inside"
    inside.mkdir()
    os.symlink(_file(folder, save(tensors())), inside / "model.safetensors")
    return inside


@_case("weights-are-a-pipe", UnsupportedCheckpoint, "model.safetensors")
def _(folder: Path) -> Path:
    os.mkfifo(folder / "model.safetensors")
    return folder


@_case("weights-are-a-folder", UnsupportedCheckpoint, "model.safetensors")
def _(folder: Path) -> Path:
    (folder / "model.safetensors").mkdir()
    return folder


@_case("unknown-kind", UnsupportedCheckpoint, "model.h5")
def _(folder: Path) -> Path:
    return _file(folder, b"\x89HDF\r\n\x1a\n", "model.h5")


def _config(name: str, content: bytes, *, error: type[CheckpointError] = MalformedCheckpoint) -> None:
    def build(folder: Path) -> Path:
        _file(folder, save(tensors()))
        _file(folder, content, "config.json")
        return folder

    _CASES.append((name, error, "config.json", build))


_config("config-duplicate-key", b'{"hidden_size": 4, "hidden_size": 8}')
_config("config-nested-duplicate-key", b'{"rope_scaling": {"factor": 1, "factor": 1}}')
_config("config-list", b"[]")
_config("config-nan", b'{"rms_norm_eps": NaN}')
_config("config-not-json", b"\0\0\0\0")
_config("config-deep", b'{"a":' * 60 + b"1" + b"}" * 60, error=CheckpointTooLarge)
_config("config-depth-bomb", b'{"a":' * 200_000, error=CheckpointTooLarge)
_config("config-too-long", b'{"a": "' + b"x" * 17_000_000 + b'"}', error=CheckpointTooLarge)


# --- quantised companions --------------------------------------------------------------------------------------------


def _companions(
    name: str, names: str, content: dict[str, torch.Tensor], *, error: type[CheckpointError] = MalformedCheckpoint
) -> None:
    _CASES.append((name, error, names, lambda folder: _file(folder, save(content))))


_WORDS = torch.zeros(8, 16, dtype=torch.int32)
_ZEROS = torch.zeros(4, 2, dtype=torch.int32)
_SCALES = torch.ones(4, 16, dtype=torch.float16)
_companions("gptq-without-scales", "l.scales", {"l.qweight": _WORDS, "l.qzeros": _ZEROS})
_companions("gptq-other-zeros", "l.qzeros", {"l.qweight": _WORDS, "l.qzeros": _ZEROS[:2].clone(), "l.scales": _SCALES})
_companions(
    "gptq-other-scales", "l.qweight", {"l.qweight": _WORDS[:, :5].clone(), "l.qzeros": _ZEROS, "l.scales": _SCALES}
)
_companions(
    "gptq-short-groups",
    "l.g_idx",
    {"l.qweight": _WORDS, "l.qzeros": _ZEROS, "l.scales": _SCALES, "l.g_idx": torch.zeros(3, dtype=torch.int32)},
)
_companions(
    "fp8-other-scale",
    "w.weight_scale",
    {"w.weight": torch.zeros(8, 8, dtype=torch.int8), "w.weight_scale": torch.ones(3, 5)},
)
_companions(
    "mxfp4",
    "w_blocks",
    {"w_blocks": torch.zeros(4, 4, dtype=torch.uint8), "w_scales": torch.ones(4)},
    error=UnsupportedCheckpoint,
)
_companions(
    "claimed-twice",
    "one meaning",
    {"l.qweight": _WORDS, "l.qzeros": _ZEROS, "l.scales": _SCALES, "l.weight": torch.ones(2)},
)


# --- torch files -----------------------------------------------------------------------------------------------------


PWNED = Path(tempfile.gettempdir()) / "pwned-by-a-checkpoint"
"""Made by the pickles below if anything ever runs them."""


class _Runs:
    """Pickles into a call of ``os.system``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {PWNED}",))


def _pickled(protocol: int = 2) -> bytes:
    return pickle.dumps({"a": _Runs()}, protocol=protocol)


def torch_zip(
    data_pkl: bytes, *, compression: int = zipfile.ZIP_STORED, extra: dict[str, bytes] | None = None
) -> bytes:
    """A file of torch's zip layout around any pickle."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in {"data.pkl": data_pkl, "byteorder": b"little", "version": b"3", **(extra or {})}.items():
            archive.writestr(f"archive/{name}", content)
    return target.getvalue()


def torch_bytes(content: object, **options: Any) -> bytes:
    """What ``torch.save`` writes."""
    target = io.BytesIO()
    torch.save(content, target, **options)
    return target.getvalue()


def _torch(
    name: str, names: str, content: Callable[[], bytes], *, error: type[CheckpointError] = UnsupportedCheckpoint
) -> None:
    _CASES.append((name, error, names, lambda folder: _file(folder, content(), "pytorch_model.bin")))


_torch("pickle-runs-code", "posix system", lambda: torch_zip(_pickled()))
_torch("pickle-runs-code-new-protocol", "data.pkl", lambda: torch_zip(_pickled(4)))
_torch("pickle-bytes-after", "data.pkl", lambda: torch_zip(pickle.dumps({}, 2) + b"x"), error=MalformedCheckpoint)
_torch("pickle-truncated", "data.pkl", lambda: torch_zip(pickle.dumps({"a": 1}, 2)[:-4]), error=MalformedCheckpoint)
_torch(
    "pickle-too-many-opcodes",
    "opcodes",
    lambda: torch_zip(b"\x80\x02" + b"}" * 700_000 + b"."),
    error=CheckpointTooLarge,
)
_torch("pickle-too-long", "data.pkl", lambda: torch_zip(b"\x80\x02" + b"}" * 17_000_000), error=CheckpointTooLarge)
_torch("legacy-pickle", "pytorch_model.bin", lambda: torch_bytes(tensors(), _use_new_zipfile_serialization=False))
_torch("bare-pickle", "pytorch_model.bin", _pickled)
_torch("not-a-zip", "pytorch_model.bin", lambda: b"PK but no zip" * 10, error=MalformedCheckpoint)
_torch(
    "zip-bomb",
    "data/0",
    lambda: torch_zip(pickle.dumps({}, 2), compression=zipfile.ZIP_DEFLATED, extra={"data/0": b"\0" * 50_000_000}),
)
_torch("torchscript", "constants.pkl", lambda: torch_zip(pickle.dumps({}, 2), extra={"constants.pkl": b""}))
_torch("big-endian", "byteorder", lambda: torch_zip(pickle.dumps({}, 2)).replace(b"little", b"bigbig"))
_torch(
    "torch-truncated", "pytorch_model.bin:directory", lambda: torch_bytes(tensors())[:-30], error=MalformedCheckpoint
)
_torch("no-pickle", "data.pkl", lambda: torch_zip(b"").replace(b"data.pkl", b"data.pk_"), error=MalformedCheckpoint)


# --- zips of folders -------------------------------------------------------------------------------------------------


def zipped(members: dict[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive of ``members``."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def _zip(
    name: str, names: str, content: Callable[[], bytes], *, error: type[CheckpointError] = MalformedCheckpoint
) -> None:
    _CASES.append((name, error, names, lambda folder: _file(folder, content(), "model.zip")))


_zip(
    "archive-bomb",
    "model.zip:model.safetensors",
    lambda: zipped({"model.safetensors": b"\0" * 100_000_000}),
    error=CheckpointTooLarge,
)
_zip("archive-leaves", "model.zip:../model.safetensors", lambda: zipped({"../model.safetensors": save(tensors())}))
_zip("archive-absolute", "model.zip:/model.safetensors", lambda: zipped({"/model.safetensors": save(tensors())}))
_zip("archive-two-models", "model.zip", lambda: zipped({"a/m.safetensors": b"", "b/m.safetensors": b""}))
_zip("archive-empty", "model.zip", lambda: zipped({}))
_zip("archive-truncated", "model.zip:directory", lambda: zipped({"model.safetensors": save(tensors())})[:-10])
_zip("archive-tail", "model.zip:directory", lambda: zipped({"model.safetensors": save(tensors())}) + b"x" * 10)
_zip(
    "archive-local-name",
    "model.zip:directory",
    lambda: zipped({"model.safetensors": save(tensors())}).replace(b"model.safe", b"MODEL.safe", 1),
)
_zip(
    "archive-bad-data",
    "model.zip:directory",
    lambda: _flipped(zipped({"model.safetensors": save(tensors())}, compression=zipfile.ZIP_STORED), 200),
)
_zip("archive-of-lies", "model.safetensors:length", lambda: zipped({"model.safetensors": b"\xff" * 100}))


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


# --- GGUF ------------------------------------------------------------------------------------------------------------


def gguf_string(text: str) -> bytes:
    """A GGUF string."""
    return struct.pack("<Q", len(text)) + text.encode()


_ARCH = gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string("llama")


def raw_gguf(
    *,
    keys: list[bytes] | None = None,
    infos: list[bytes] | None = None,
    data: bytes = b"",
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A GGUF file from its parts, with counts that may lie."""
    keys, infos = [_ARCH] if keys is None else keys, infos or []
    tensors_, metadata = counts or (len(infos), len(keys))
    head = b"GGUF" + struct.pack("<IQQ", version, tensors_, metadata) + b"".join(keys) + b"".join(infos)
    return head + b"\0" * (-len(head) % 32) + data


def gguf_info(name: str = "output_norm.weight", dims: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0) -> bytes:
    """A GGUF tensor info."""
    return gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def _gguf(
    name: str, names: str, content: Callable[[], bytes], *, error: type[CheckpointError] = MalformedCheckpoint
) -> None:
    _CASES.append((name, error, names, lambda folder: _file(folder, content(), "model.gguf")))


def _key(name: str, kind: int, value: bytes) -> bytes:
    return gguf_string(name) + struct.pack("<I", kind) + value


_gguf("gguf-empty", "model.gguf:magic", lambda: b"")
_gguf("gguf-magic", "model.gguf:magic", lambda: b"GGML" + b"\0" * 60)
_gguf("gguf-version", "version", lambda: raw_gguf(version=9), error=UnsupportedCheckpoint)
_gguf("gguf-big-endian", "version", lambda: raw_gguf(version=0x03000000), error=UnsupportedCheckpoint)
_gguf("gguf-many-tensors", "header", lambda: raw_gguf(counts=(2**60, 1)), error=CheckpointTooLarge)
_gguf("gguf-many-keys", "header", lambda: raw_gguf(counts=(0, 2**60)), error=CheckpointTooLarge)
_gguf("gguf-duplicate-key", "metadata[1].key", lambda: raw_gguf(keys=[_ARCH, _ARCH]))
_gguf("gguf-no-architecture", "general.architecture", lambda: raw_gguf(keys=[]))
_gguf("gguf-key-type", "k.type", lambda: raw_gguf(keys=[_ARCH, _key("k", 77, b"")]))
_gguf("gguf-long-string", "k", lambda: raw_gguf(keys=[_ARCH, _key("k", 8, struct.pack("<Q", 2**62))]))
_gguf("gguf-long-array", "k", lambda: raw_gguf(keys=[_ARCH, _key("k", 9, struct.pack("<IQ", 10, 2**61))]))
_gguf(
    "gguf-string-bomb",
    "k",
    lambda: raw_gguf(keys=[_ARCH, _key("k", 9, struct.pack("<IQ", 8, 2**61))]),
    error=CheckpointTooLarge,
)
_gguf("gguf-array-of-arrays", "k.type", lambda: raw_gguf(keys=[_ARCH, _key("k", 9, struct.pack("<IQ", 9, 3))]))
_gguf(
    "gguf-alignment",
    "general.alignment",
    lambda: raw_gguf(keys=[_ARCH, _key("general.alignment", 4, struct.pack("<I", 3))]),
)
_gguf("gguf-rank", "n_dims", lambda: raw_gguf(infos=[gguf_info(dims=(1,) * 5)], data=b"\0" * 4))
_gguf("gguf-dims-overflow", "dims", lambda: raw_gguf(infos=[gguf_info(dims=(2**40, 2**40))]))
_gguf("gguf-type", "type", lambda: raw_gguf(infos=[gguf_info(kind=99)]), error=UnsupportedCheckpoint)
_gguf("gguf-block-size", "dims", lambda: raw_gguf(infos=[gguf_info(dims=(8,), kind=2)], data=b"\0" * 32))
_gguf(
    "gguf-duplicate-tensor",
    "tensor names",
    lambda: raw_gguf(infos=[gguf_info(), gguf_info(offset=32)], data=b"\0" * 64),
)
_gguf("gguf-overlap", "b.offset", lambda: raw_gguf(infos=[gguf_info("a"), gguf_info("b")], data=b"\0" * 32))
_gguf("gguf-hole", "b.offset", lambda: raw_gguf(infos=[gguf_info("a"), gguf_info("b", offset=96)], data=b"\0" * 128))
_gguf("gguf-truncated", "data", lambda: raw_gguf(infos=[gguf_info()], data=b"\0" * 31))
_gguf(
    "gguf-split",
    "split.count",
    lambda: raw_gguf(keys=[_ARCH, _key("split.count", 2, struct.pack("<H", 3))]),
    error=UnsupportedCheckpoint,
)
_gguf("gguf-trailing", "data", lambda: raw_gguf(infos=[gguf_info()], data=b"\0" * 64))
_gguf("gguf-heads", "attn_q", lambda: raw_gguf(infos=[gguf_info("blk.0.attn_q.weight", (8, 8))], data=b"\0" * 256))


# --- ONNX ------------------------------------------------------------------------------------------------------------


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    """A protobuf varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def onnx_tensor(name: str = "w.weight", dims: tuple[int, ...] = (2,), kind: int = 1, *more: bytes) -> bytes:
    """An initialiser field of a graph."""
    body = b"".join(varint(1 << 3) + varint(size) for size in dims) + varint(2 << 3) + varint(kind)
    return field(5, body + field(8, name.encode()) + b"".join(more))


def _onnx(
    name: str, names: str, content: Callable[[], bytes], *, error: type[CheckpointError] = MalformedCheckpoint
) -> None:
    _CASES.append((name, error, names, lambda folder: _file(folder, content(), "model.onnx")))


def _graph(*parts: bytes) -> bytes:
    return field(7, b"".join(parts))


def _external(location: str, **numbers: str) -> bytes:
    entries = {"location": location, **numbers}
    return b"".join(field(13, field(1, key.encode()) + field(2, value.encode())) for key, value in entries.items())


_onnx("onnx-empty", "graph", lambda: b"")
_onnx("onnx-garbage", "model.onnx:byte", lambda: b"\xff" * 64)
_onnx("onnx-two-graphs", "graph", lambda: _graph() + _graph())
_onnx("onnx-no-weights", "model.onnx", _graph)
_onnx("onnx-truncated", "model.onnx:byte", lambda: _graph(onnx_tensor("w.weight", (2,), 1, field(9, b"\0" * 8)))[:-4])
_onnx("onnx-wrong-size", "w.weight", lambda: _graph(onnx_tensor("w.weight", (3,), 1, field(9, b"\0" * 8))))
_onnx("onnx-huge-shape", "w.weight", lambda: _graph(onnx_tensor("w.weight", (2**40, 2**40), 1, field(9, b"\0" * 8))))
_onnx(
    "onnx-negative-shape",
    "w.weight.dims",
    lambda: _graph(onnx_tensor("w.weight", (2**64 - 2,), 1, field(9, b"\0" * 8))),
)
_onnx(
    "onnx-two-raw",
    "w.weight",
    lambda: _graph(onnx_tensor("w.weight", (2,), 1, field(9, b"\0" * 8), field(9, b"\1" * 8))),
)
_onnx(
    "onnx-two-names",
    "TensorProto.8",
    lambda: _graph(onnx_tensor("w.weight", (2,), 1, field(8, b"x"), field(9, b"\0" * 8))),
)
_onnx("onnx-duplicate", "w.weight", lambda: _graph(*[onnx_tensor("w.weight", (2,), 1, field(9, b"\0" * 8))] * 2))
_onnx(
    "onnx-dtype",
    "w.weight",
    lambda: _graph(onnx_tensor("w.weight", (2,), 77, field(9, b"\0" * 8))),
    error=UnsupportedCheckpoint,
)
_onnx(
    "onnx-external-leaves",
    "external_data.location",
    lambda: _graph(onnx_tensor("w.weight", (2,), 1, _external("../../etc/passwd"))),
)
_onnx(
    "onnx-external-absolute",
    "external_data.location",
    lambda: _graph(onnx_tensor("w.weight", (2,), 1, _external("/etc/passwd"))),
)
_onnx(
    "onnx-external-past-end",
    "model.onnx",
    lambda: _graph(onnx_tensor("w.weight", (2,), 1, _external("model.onnx", offset="90"))),
)
_onnx(
    "onnx-external-number",
    "external_data",
    lambda: _graph(onnx_tensor("w.weight", (2,), 1, _external("model.onnx", offset="-1"))),
)
_onnx("onnx-field-bomb", "model.onnx", lambda: _graph(field(1, b"") * 700_000), error=CheckpointTooLarge)
_onnx(
    "onnx-codes-without-scale",
    "w",
    lambda: _graph(onnx_tensor("w", (80, 80), 3, field(9, b"\1" * 6400))),
    error=UnsupportedCheckpoint,
)
