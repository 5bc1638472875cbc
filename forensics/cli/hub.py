"""Hub references on the command line: what is on this machine first, then what the hub has.

Looked for in this order: what was fetched before (under the home, checked by digest when it came), the cache of the
hub's own client, the hub that the settings name. With ``HF_HUB_OFFLINE`` set, the hub is not asked.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fingerprint.errors import CheckpointUnavailable

from ..hub.reference import HubReference, parse
from .console import progress

if TYPE_CHECKING:
    from ..hub.interface import Fetched
    from ..settings import Settings

__all__ = ["HubReference", "cached", "fetched", "parse"]
MAX_RECORD = 16 << 20


def cached(reference: HubReference) -> Path:
    """The snapshot folder of ``reference`` in the local hub cache.

    Raises:
        CheckpointUnavailable: It is not there.
    """
    folder = _snapshot(reference)
    if folder.is_dir():
        return folder
    raise CheckpointUnavailable(
        "not in the local hub cache, and the hub is not asked",
        where=str(reference),
        expected=str(folder),
        remedy=f"Unset HF_HUB_OFFLINE, or download it: `hf download {reference.repo} --revision {reference.revision}`.",
    )


def fetched(reference: HubReference, settings: Settings) -> Path:
    """The folder of ``reference``, downloaded when it is not on this machine.

    Raises:
        CheckpointUnavailable: It is not here, and the hub may not be asked.
        Refusal: The hub does not have it, or it is not taken.
    """
    folder = settings.home / "cache" / "hub" / "models" / reference.repo / reference.revision
    record = folder.with_name(f"{reference.revision}.json")
    if _whole(folder, record):
        return folder
    if _snapshot(reference).is_dir() or offline():
        return cached(reference)
    from ..hub import open_hub

    with progress(f"fetching {reference.repo}") as bar:
        done = open_hub(settings, tries=2).fetch(reference, folder, bar)
    _write(record, done)
    return folder


def offline() -> bool:
    """Whether the hub's own client is told to stay offline; then so do we."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _whole(folder: Path, record: Path) -> bool:
    """Whether everything that was fetched and checked once is still there, by name and size."""
    try:
        with record.open("rb") as file:
            files = json.loads(file.read(MAX_RECORD))
        return all((folder / str(name)).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, AttributeError):
        return False


def _write(record: Path, done: Fetched) -> None:
    from .output import write_file

    names = {file.name: file.size for file in done.files}
    write_file(record, json.dumps(names, sort_keys=True).encode(), option="hub cache")


def _snapshot(reference: HubReference) -> Path:
    return _cache() / f"models--{reference.repo.replace('/', '--')}" / "snapshots" / reference.revision


def _cache() -> Path:
    """Where huggingface_hub keeps its cache, by the variables it documents."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if value := os.environ.get(variable):
            return Path(value).expanduser() / below
    return Path.home() / ".cache" / "huggingface" / "hub"
