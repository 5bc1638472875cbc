"""Files of a checkpoint on this machine: written beside their place, checked, then renamed; room is made sure of."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from .interface import Refusal, State

try:
    import fcntl
except ImportError:  # Windows: one process at a time is then the caller's to see to
    fcntl = None  # type: ignore[assignment]

CHUNK: Final = 1 << 20
PART: Final = ".part"
"""Ending of a file that is not whole yet; no repository may use it, for it is none of the kinds that are fetched."""


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until nobody else, here or in another process, brings files into this folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file is closed, also by a kill
        yield


def below(folder: Path, name: str) -> Path:
    """The place of a file in a folder, its parents made; no part of the way may be a link.

    Raises:
        Refusal: ``refused``, when the way leaves the folder.
    """
    path = folder
    folder.mkdir(parents=True, exist_ok=True)
    for part in name.split("/")[:-1]:
        path = path / part
        path.mkdir(exist_ok=True)
        if path.is_symlink():
            raise Refusal(State.REFUSED, "a folder on the way is a link", where=str(path))
    target = path / name.rsplit("/", 1)[-1]
    if target.is_symlink():
        target.unlink()
    return target


def digest_of(path: Path) -> str:
    """SHA-256 of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_blob_of(path: Path) -> str:
    """Git's object id of a file's content, 40 hex digits: what the hub names small files by."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def write_stream(path: Path, chunks: Iterable[bytes]) -> int:
    """Write chunks beside ``path`` and rename; the bytes written. A failure leaves nothing behind."""
    part, size = path.with_name(path.name + PART), 0
    try:
        with part.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return size


def room_for(folder: Path, needed: int, *, keep_free: int) -> None:
    """Make sure that ``needed`` bytes fit, and ``keep_free`` stay free.

    Raises:
        Refusal: ``disk_full``.
    """
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free - keep_free < needed:
        raise Refusal(
            State.DISK_FULL,
            "no room for the checkpoint",
            where=str(folder),
            got=f"{max(free - keep_free, 0)} bytes free beyond the reserve",
            expected=f"{needed} bytes",
            remedy="Free disk space, or set FORENSICS_HUB_KEEP_FREE.",
        )


def full(error: OSError) -> bool:
    """Whether an error of the system means that the disk is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
