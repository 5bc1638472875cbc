"""From a path to a reader: looks at what the path is, settles the file set, and hands it to its container's reader."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fingerprint.checkpoint.archive import open_archive
from fingerprint.checkpoint.folder import SUFFIXES, WeightFiles, check_tensors, confined, find, read_config
from fingerprint.checkpoint.gguf import open_gguf
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.limits import DEFAULT_LIMITS, Limits
from fingerprint.checkpoint.onnx import open_onnx
from fingerprint.checkpoint.quantised import dequantised
from fingerprint.checkpoint.safetensors import SafetensorsCheckpoint, SafetensorsFile
from fingerprint.checkpoint.tokens import token_strings
from fingerprint.checkpoint.torch_file import open_torch
from fingerprint.errors import CheckpointUnavailable, MalformedCheckpoint, UnsupportedCheckpoint


def open_checkpoint(path: Path | str, *, limits: Limits = DEFAULT_LIMITS) -> Checkpoint:
    """Open a checkpoint: a folder, one weight file, or a zip of a folder.

    Args:
        path: Folder with weights, a single file, or a ``.zip``; ``config.json`` and the tokenizer lie beside the
            weights.
        limits: Bounds, checked before anything is allocated.

    Returns:
        An open reader; use it as a context manager.

    Raises:
        CheckpointError: The files cannot be trusted or understood (exit 3).
        CheckpointUnavailable: They are not there (exit 4).
    """
    path = Path(path)
    if path.suffix == ".zip" and path.is_file():
        return open_archive(path, partial(open_checkpoint, limits=limits), limits)
    files = find(path, limits) if path.is_dir() else _one_file(path)
    config = read_config(files.folder, limits)
    if files.kind == "safetensors":
        return _safetensors(path, files, config, limits)
    tokens = partial(token_strings, files.folder, limits)
    sources = [path] if path.is_file() else [confined(files.folder, name) for name in files.names]
    if files.kind == "onnx":
        return open_onnx(sources[0], config=config, tokens=tokens, limits=limits)
    if files.kind == "torch":
        return open_torch(path, sources, files, config=config, tokens=tokens, limits=limits)
    return open_gguf(sources[0], declared=config, tokens=tokens, limits=limits)


def _one_file(path: Path) -> WeightFiles:
    if not path.exists():
        raise CheckpointUnavailable("is not there", where=path.name, remedy="Check the path.")
    for kind, suffixes in SUFFIXES.items():
        if path.name.endswith(suffixes):
            return WeightFiles(kind, path.parent, (path.name,))
    raise UnsupportedCheckpoint(
        "unknown kind of file",
        where=path.name,
        got=path.suffix,
        expected=" ".join(s for suffixes in SUFFIXES.values() for s in suffixes),
        remedy="Give a folder or a weight file.",
    )


def _safetensors(path: Path, files: WeightFiles, config: dict[str, object], limits: Limits) -> Checkpoint:
    """Open every shard, or none: a refusal closes what was opened."""
    shards: list[SafetensorsFile] = []
    try:
        for name in files.names:
            source = path if path.is_file() else confined(files.folder, name)
            shards.append(SafetensorsFile(source, name=name, limits=limits))
        _check_shards(shards, files, limits)
    except BaseException:
        for shard in shards:
            shard.map.close()
        raise
    base = SafetensorsCheckpoint(path, shards, config=config, tokens=partial(token_strings, files.folder, limits))
    try:
        return dequantised(base)
    except BaseException:
        base.close()
        raise


def _check_shards(shards: list[SafetensorsFile], files: WeightFiles, limits: Limits) -> None:
    found: dict[str, str] = {}
    for shard in shards:
        for name in shard.entries:
            if name in found:
                raise MalformedCheckpoint(
                    "tensor in two shards",
                    where=f"{shard.file.name}:{name[:100]}",
                    got=f"also in {found[name]}",
                    expected="one home",
                )
            found[name] = shard.file.name
    check_tensors(found, files)
