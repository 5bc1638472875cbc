"""From a path to a reader: looks at what the path is, settles the file set, and hands it to its container's reader."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from fingerprint.checkpoint.archive import open_archive
from fingerprint.checkpoint.folder import SUFFIXES, WeightFiles, confined, find, read_config
from fingerprint.checkpoint.gguf import open_gguf
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.limits import DEFAULT_LIMITS, Limits
from fingerprint.checkpoint.onnx import open_onnx
from fingerprint.checkpoint.request import Reader, Request
from fingerprint.checkpoint.sharded import open_safetensors
from fingerprint.checkpoint.tokens import token_strings
from fingerprint.checkpoint.torch_file import open_torch
from fingerprint.errors import CheckpointUnavailable, UnsupportedCheckpoint

READERS: Mapping[str, Reader] = {
    "safetensors": open_safetensors,
    "torch": open_torch,
    "gguf": open_gguf,
    "onnx": open_onnx,
}


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
    path = Path(path).absolute()
    if path.suffix == ".zip" and path.is_file():
        return open_archive(path, partial(open_checkpoint, limits=limits), limits)
    whole = path.is_dir()
    files = find(path, limits) if whole else _one_file(path)
    request = Request(
        path,
        tuple(confined(files.folder, name) for name in files.names) if whole else (path,),
        files,
        read_config(files.folder, limits),
        partial(token_strings, files.folder, limits),
        limits,
    )
    return READERS[files.kind](request)


def _one_file(path: Path) -> WeightFiles:
    if not path.exists():
        raise CheckpointUnavailable("is not there", where=path.name, remedy="Check the path.")
    for kind, suffixes in SUFFIXES.items():
        if path.name.endswith(suffixes):
            return WeightFiles(kind, path.parent, (path.name,))
    raise UnsupportedCheckpoint(
        "unknown kind of file",
        where=path.name,
        got=path.suffix or "no suffix",
        expected=" ".join(s for suffixes in SUFFIXES.values() for s in suffixes),
        remedy="Give a folder or a weight file.",
    )
