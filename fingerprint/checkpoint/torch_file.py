"""torch ``.bin``/``.pt``: a zip with a pickle that says how its storages become tensors.

Nothing is unpickled here. The zip's directory and the pickle's opcodes are checked first; a limited process then asks
torch's weights-only loader where each tensor lies; the bytes are read from our own map of the file, after every range
was checked against the zip member it should come from. No storage is copied, no temporary file is made.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fingerprint.checkpoint import torch_worker
from fingerprint.checkpoint.derived import Derived, DerivedCheckpoint
from fingerprint.checkpoint.folder import check_tensors
from fingerprint.checkpoint.interface import Checkpoint, CheckpointFile, TensorInfo
from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.pickle_scan import check_pickle
from fingerprint.checkpoint.request import Request
from fingerprint.checkpoint.safetensors import DTYPES, check_name, check_shape
from fingerprint.checkpoint.zip_directory import STORED, Member, read_directory
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

_DTYPES = {str(dtype): (name, dtype) for name, dtype in DTYPES.items()}
_REMEDY = "Convert the checkpoint to safetensors where you trust it, and give that."


def open_torch(request: Request) -> Checkpoint:
    """Open one file or a sharded set of torch's zip format.

    Raises:
        CheckpointError: Anything but a dictionary of dense tensors in stored zip members.
    """
    limits = request.limits
    maps: list[MappedFile] = []
    try:
        maps.extend(MappedFile(source) for source in request.sources)
        members = [_checked_members(file, limits) for file in maps]
        records = _ask(request.sources, maps, limits)
        derived: dict[str, Derived] = {}
        found: dict[str, str] = {}
        for file, inside, described in zip(maps, members, records, strict=True):
            storages = {member.begin: member.size for member in inside if "/data/" in member.name}
            for record in described:
                item = _derived(record, file, storages, limits)
                if item.info.name in derived:
                    raise MalformedCheckpoint("tensor in two shards", where=f"{file.name}:{item.info.name}")
                derived[item.info.name], found[item.info.name] = item, file.name
        check_tensors(found, request.files)
    except BaseException:
        _close(maps)
        raise
    return DerivedCheckpoint(
        request.path,
        derived.values(),
        format="torch",
        files=tuple(sorted((CheckpointFile(m.name, m.size) for m in maps), key=lambda file: file.name)),
        config=request.config,
        tokens=request.tokens,
        on_close=lambda: _close(maps),
    )


def _close(maps: Sequence[MappedFile]) -> None:
    for file in maps:
        file.close()


def _checked_members(file: MappedFile, limits: Limits) -> tuple[Member, ...]:
    """The zip's members, once they are known to hold what torch.save writes and nothing packed."""
    if file.read(0, 2) != b"PK":
        raise UnsupportedCheckpoint(
            "not torch's zip format (a legacy pickle, or something else)",
            where=file.name,
            got=file.read(0, 4).hex(),
            expected="PK\\x03\\x04",
            remedy=_REMEDY,
        )
    members = read_directory(file, limits)
    if packed := max((m for m in members if m.method != STORED), key=lambda m: m.size, default=None):
        raise UnsupportedCheckpoint(
            "compressed member; torch stores them",
            where=f"{file.name}:{packed.name[:80]}",
            got=f"{packed.packed} bytes for {packed.size}",
            expected="stored",
            remedy=_REMEDY,
        )
    if program := [m for m in members if "/code/" in m.name or m.name.endswith("/constants.pkl")]:
        raise UnsupportedCheckpoint(
            "TorchScript holds a program",
            where=f"{file.name}:{program[0].name[:80]}",
            got="TorchScript",
            expected="a dictionary of tensors",
            remedy=_REMEDY,
        )
    pickles = [member for member in members if member.name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise MalformedCheckpoint("no single data.pkl", where=file.name, got=len(pickles), expected=1)
    _check_text(file, members, pickles[0], limits)
    return members


def _check_text(file: MappedFile, members: Sequence[Member], pickle: Member, limits: Limits) -> None:
    where = f"{file.name}:{pickle.name[:80]}"
    if pickle.size > limits.pickle_bytes:
        raise CheckpointTooLarge("pickle too long", where=where, got=pickle.size, expected=f"<= {limits.pickle_bytes}")
    check_pickle(file.read(pickle.begin, pickle.begin + pickle.size), where=where, limits=limits)
    order = [m for m in members if m.name == pickle.name.removesuffix("data.pkl") + "byteorder"]
    if order and file.read(order[0].begin, order[0].begin + order[0].size) != b"little":
        raise UnsupportedCheckpoint("big-endian file", where=f"{file.name}:{order[0].name}", expected="little")


def _ask(sources: Sequence[Path], maps: Sequence[MappedFile], limits: Limits) -> list[list[dict[str, Any]]]:
    """Where torch's weights-only loader finds the tensors, per file."""
    order = {
        "paths": [str(source.resolve()) for source in sources],
        "sizes": [file.size for file in maps],
        "memory": limits.pickle_memory,
        "seconds": limits.pickle_seconds,
        "tensors": limits.tensors,
        "name_bytes": limits.name_bytes,
    }
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-I", torch_worker.__file__],
            input=json.dumps(order) + "\n",
            capture_output=True,
            text=True,
            timeout=3 * limits.pickle_seconds,
            env={"OMP_NUM_THREADS": "1"},
            check=False,
        )
        answer: dict[str, Any] = (
            json.loads(done.stdout) if done.stdout else {"error": f"ended with status {done.returncode}"}
        )
    except subprocess.TimeoutExpired:
        answer = {"error": f"took over {3 * limits.pickle_seconds} s"}
    if "error" in answer:
        raise UnsupportedCheckpoint(
            "torch's weights-only loader refuses it",
            where=", ".join(file.name for file in maps)[:200],
            got=answer["error"],
            expected="a dictionary of dense tensors",
            remedy=_REMEDY,
        )
    files: list[list[dict[str, Any]]] = answer["files"]
    return files


def _derived(record: Mapping[str, Any], file: MappedFile, storages: Mapping[int, int], limits: Limits) -> Derived:
    """One described tensor over the map, after its claims were checked against the zip's members."""
    name, where = record["name"], f"{file.name}:{record['name'][:100]}"
    check_name(name, file.name, limits)
    if record["dtype"] not in _DTYPES:
        raise UnsupportedCheckpoint("dtype not read", where=where, got=record["dtype"], expected=" ".join(_DTYPES))
    stored, dtype = _DTYPES[record["dtype"]]
    info = TensorInfo(name, check_shape(record["shape"], where, limits), dtype, stored)
    begin, stride = int(record["offset"]), tuple(record["stride"])
    elements = 1 + sum((size - 1) * step for size, step in zip(info.shape, stride, strict=True)) if info.numel else 0
    last = record["storage"] + storages.get(record["storage"], -1)
    if info.numel and (record["storage"] not in storages or begin + elements * dtype.itemsize > last):
        raise MalformedCheckpoint(
            "tensor leaves its storage", where=where, got=f"ends at {begin + elements * dtype.itemsize}", expected=last
        )
    if info.numel > elements:
        raise UnsupportedCheckpoint("tensor repeats its elements", where=where, got=stride, expected="a dense tensor")
    return _over(info, file, begin, stride, elements)


def _over(info: TensorInfo, file: MappedFile, begin: int, stride: tuple[int, ...], elements: int) -> Derived:
    end = begin + elements * info.dtype.itemsize
    if info.numel and torch.empty(info.shape, device="meta").stride() == stride:
        width = info.numel // info.rows

        def rows(lo: int, hi: int) -> torch.Tensor:
            flat = file.flat(begin + lo * width * info.dtype.itemsize, (hi - lo) * width, info.dtype)
            return flat.view(hi - lo, *info.shape[1:])

        return Derived(info, rows, lambda: file.release(begin, end), lambda: file.raw(begin, end))

    def gathered(lo: int, hi: int) -> torch.Tensor:
        return file.flat(begin, elements, info.dtype).as_strided(info.shape, stride)[lo:hi]

    return Derived(info, gathered, lambda: file.release(begin, end))
