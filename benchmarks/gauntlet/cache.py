"""Where trained models are kept: outside the repository, whole or not at all, and safe for two builders at once."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

META = "meta.json"


def root() -> Path:
    """``FORENSICS_CACHE``, else ``model-forensics`` in the user's cache folder."""
    chosen = os.environ.get("FORENSICS_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "model-forensics"


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold ``folder`` against other builders; waits until they are done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A scratch folder that becomes ``folder`` by one rename when the block ends without an error."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_meta(folder: Path) -> dict[str, Any] | None:
    """The model's ``meta.json``; None where there is no whole model."""
    try:
        found: dict[str, Any] = json.loads((folder / META).read_text())
    except (OSError, ValueError):
        return None
    return found


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Write ``meta.json``, sorted and indented."""
    (folder / META).write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n")
