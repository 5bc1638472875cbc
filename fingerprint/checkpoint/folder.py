"""Which files of a folder are the checkpoint.

A folder is a claim too: an index may name a file outside it, leave a shard out, or a 4-bit file may lie beside bf16
shards so that two loaders pick two models. So the set is settled here, by rule, before a reader sees it: of the kinds
present the first of ``safetensors``, ``torch``, ``gguf``, ``onnx`` counts (the order in which transformers looks);
of that kind there is one file, or one index and exactly its shards. Sub-folders are not entered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import read_bounded
from fingerprint.checkpoint.strict_json import parse_object
from fingerprint.errors import CheckpointTooLarge, CheckpointUnavailable, MalformedCheckpoint, UnsupportedCheckpoint

SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "safetensors": (".safetensors",),
    "torch": (".bin", ".pt", ".pth"),
    "gguf": (".gguf",),
    "onnx": (".onnx",),
}
NOT_WEIGHTS = frozenset({"training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth"})
"""Files of a trainer that share a suffix with weights."""

_STRAY = "Keep one set of weights in the folder, or open one file by itself."


@dataclass(frozen=True)
class WeightFiles:
    """The files that make up a checkpoint.

    Attributes:
        kind: Key of ``SUFFIXES``.
        folder: Where they lie.
        names: File names, sorted.
        weight_map: Tensor to file name, from the index; None without one.
        index: Name of the index file, for messages.
    """

    kind: str
    folder: Path
    names: tuple[str, ...]
    weight_map: Mapping[str, str] | None = None
    index: str = ""


def find(folder: Path, limits: Limits) -> WeightFiles:
    """Settle which files of ``folder`` are the weights.

    Raises:
        CheckpointUnavailable: The folder cannot be listed, or holds no weights.
        MalformedCheckpoint: Several candidates, a stray or absent shard, a path that leaves the folder.
        CheckpointTooLarge: More names or shards than the limits allow.
    """
    names = _listing(folder, limits)
    for kind, suffixes in SUFFIXES.items():
        weights = [n for n in names if n.endswith(suffixes) and n not in NOT_WEIGHTS]
        indexes = [n for n in names if n.endswith(tuple(f"{suffix}.index.json" for suffix in suffixes))]
        if indexes:
            return _sharded(kind, folder, weights, indexes, limits)
        if weights:
            return _single(kind, folder, weights)
    raise CheckpointUnavailable(
        "holds no weights", where=folder.name, expected="*.safetensors, *.bin, *.pt, *.gguf or *.onnx"
    )


def read_config(folder: Path, limits: Limits) -> dict[str, Any]:
    """``config.json`` of ``folder``, strictly parsed; empty when there is none.

    Raises:
        CheckpointError: It is malformed, too large, or leaves the folder.
    """
    return read_json(folder, "config.json", limits) if (folder / "config.json").is_file() else {}


def read_json(folder: Path, name: str, limits: Limits) -> dict[str, Any]:
    """A JSON object of ``folder``.

    Raises:
        CheckpointError: As for ``read_config``.
    """
    data = read_bounded(confined(folder, name), limits.json_bytes)
    return parse_object(data, where=name, limits=limits)


def confined(folder: Path, name: str, *, where: str = "") -> Path:
    """``folder / name`` after links, if that still lies in the folder.

    The hub's cache links ``snapshots/<revision>/x`` to ``blobs/<digest>`` of the same model; that one way out is kept.

    Raises:
        MalformedCheckpoint: A separator or ``..`` in the name, or a link that leaves the folder.
    """
    if not name or name in {".", ".."} or "/" in name or "\\" in name or "\0" in name:
        raise MalformedCheckpoint(
            "path leaves the folder", where=where or name, got=name, expected="a plain file name", remedy=_STRAY
        )
    home, target = folder.resolve(), Path(os.path.realpath(folder / name))
    blobs = home.parents[1] / "blobs" if home.parent.name == "snapshots" else None
    if target.parent != home and not home_of(target, home) and target.parent != blobs:
        raise MalformedCheckpoint(
            "link leaves the folder", where=where or name, got=str(target), expected=str(home), remedy=_STRAY
        )
    return target


def home_of(target: Path, home: Path) -> bool:
    """Whether ``target`` lies somewhere under ``home``; both resolved."""
    return target.is_relative_to(home)


def _listing(folder: Path, limits: Limits) -> list[str]:
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > limits.folder_entries:
                    raise CheckpointTooLarge(
                        "too many files", where=folder.name, got=f"> {len(names) - 1}", expected=limits.folder_entries
                    )
    except OSError as error:
        raise CheckpointUnavailable("cannot be listed", where=folder.name, got=error.strerror) from None
    return sorted(names)


def _single(kind: str, folder: Path, weights: Sequence[str]) -> WeightFiles:
    if len(weights) > 1:
        raise MalformedCheckpoint(
            f"several {kind} files and no index",
            where=folder.name,
            got=", ".join(weights),
            expected="one file, or an index that names them all",
            remedy=_STRAY,
        )
    confined(folder, weights[0])
    return WeightFiles(kind, folder, tuple(weights))


def _sharded(kind: str, folder: Path, weights: Sequence[str], indexes: Sequence[str], limits: Limits) -> WeightFiles:
    if len(indexes) > 1:
        raise MalformedCheckpoint(
            "several indexes", where=folder.name, got=", ".join(indexes), expected="one", remedy=_STRAY
        )
    index = indexes[0]
    weight_map = _weight_map(read_json(folder, index, limits), index, limits)
    shards = sorted(set(weight_map.values()))
    if len(shards) > limits.shards:
        raise CheckpointTooLarge("too many shards", where=index, got=len(shards), expected=f"<= {limits.shards}")
    for shard in shards:
        confined(folder, shard, where=f"{index}:weight_map")
        if not shard.endswith(SUFFIXES[kind]):
            raise UnsupportedCheckpoint(
                "shard of another kind", where=f"{index}:weight_map", got=shard, expected=f"*{SUFFIXES[kind][0]}"
            )
    _check_set(set(shards), set(weights), folder, index)
    return WeightFiles(kind, folder, tuple(shards), weight_map, index)


def _weight_map(content: Mapping[str, Any], index: str, limits: Limits) -> dict[str, str]:
    weight_map = content.get("weight_map")
    if type(weight_map) is not dict or not weight_map or not all(type(v) is str for v in weight_map.values()):
        raise MalformedCheckpoint(
            "no map from tensors to files", where=f"{index}:weight_map", got=weight_map, expected="strings to strings"
        )
    if len(weight_map) > limits.tensors:
        raise CheckpointTooLarge(
            "too many tensors", where=f"{index}:weight_map", got=len(weight_map), expected=f"<= {limits.tensors}"
        )
    return weight_map


def _check_set(named: set[str], present: set[str], folder: Path, index: str) -> None:
    """The index's shards and the folder's weight files are the same set."""
    if absent := sorted(named - present):
        raise MalformedCheckpoint(
            "index names absent shards",
            where=f"{index}:weight_map",
            got=", ".join(absent),
            expected="files in the folder",
            remedy="Download the missing files.",
        )
    if stray := sorted(present - named):
        raise MalformedCheckpoint(
            "stray weight files beside the sharded set",
            where=f"{folder.name}/{stray[0]}",
            got=", ".join(stray),
            expected=f"only files that {index} names",
            remedy=_STRAY,
        )


def check_tensors(found: Mapping[str, str], files: WeightFiles) -> None:
    """Compare the tensors of the shards with the index.

    Args:
        found: Tensor to file, from the shards' own headers.
        files: The set, with its index.

    Raises:
        MalformedCheckpoint: The index names absent tensors, omits present ones, or sends one to another file.
    """
    if files.weight_map is None:
        return
    where = f"{files.index}:weight_map"
    if absent := sorted(files.weight_map.keys() - found.keys()):
        raise MalformedCheckpoint(
            "index names absent tensors", where=where, got=", ".join(absent[:4]), expected="tensors of the shards"
        )
    if omitted := sorted(found.keys() - files.weight_map.keys()):
        raise MalformedCheckpoint(
            "index omits tensors", where=where, got=", ".join(omitted[:4]), expected="every tensor of every shard"
        )
    for name, file in found.items():
        if files.weight_map[name] != file:
            raise MalformedCheckpoint(
                "index sends a tensor to another shard",
                where=f"{where}.{name[:100]}",
                got=files.weight_map[name],
                expected=file,
            )
