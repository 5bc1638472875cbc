"""A hub on this machine: ``ROOT/owner/name/revision/`` is a repository at a commit.

For the demo, tests, and operators who mirror repositories by other means. What is there is hashed and copied like what
comes from the network, so that everything after it is the same.
"""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from .files import CHUNK, alone, below, digest_of, room_for, write_stream
from .interface import Fetched, HubMisuse, Listing, Progress, Refusal, RemoteFile, State
from .limits import FetchLimits
from .reference import HubReference


class LocalHub:
    """A folder as a hub.

    Args:
        root: The folder.
        limits: What a repository may ask of us.
    """

    def __init__(self, root: Path, limits: FetchLimits | None = None) -> None:
        if not root.is_dir():
            raise HubMisuse("no such folder", where="hub", got=str(root), expected="ROOT/owner/name/revision/")
        self._root, self._limits = root, limits or FetchLimits()

    def list(self, reference: HubReference) -> Listing:
        """Names and sizes; contents are not read."""
        folder = self._folder(reference)
        try:
            return self._limits.choose(reference, list(_files(folder, str(reference))))
        except OSError as error:
            raise _unreadable(reference, error) from None

    def fetch(self, reference: HubReference, folder: Path, progress: Progress | None = None) -> Fetched:
        """Copy what is not there yet."""
        began = time.monotonic()
        source, listing = self._folder(reference), self.list(reference)
        try:
            room_for(folder, listing.bytes, keep_free=self._limits.keep_free)
            with alone(folder):
                files, copied = _copied(source, listing, folder, progress)
        except OSError as error:
            raise _unreadable(reference, error) from None
        return Fetched(folder, files, listing.bytes, time.monotonic() - began, copied)

    def _folder(self, reference: HubReference) -> Path:
        repo = self._root / reference.repo
        folder = repo / reference.revision
        if folder.is_dir():
            return folder
        state = State.REVISION_MISSING if repo.is_dir() else State.NOT_FOUND
        raise Refusal(state, "not in this folder", where=str(reference), expected=str(folder))


def _copied(
    source: Path, listing: Listing, folder: Path, progress: Progress | None
) -> tuple[tuple[RemoteFile, ...], int]:
    """Make ``folder`` what the listing says; the files with their digests, and bytes that were copied."""
    done, copied, files = 0, 0, []
    for file in listing.files:
        digest = digest_of(source / file.name)
        target = below(folder, file.name)
        if not target.is_file() or digest_of(target) != digest:
            with (source / file.name).open("rb") as stream:
                write_stream(target, iter(partial(stream.read, CHUNK), b""))
            shutil.copystat(source / file.name, target)
            copied += file.size
        done += file.size
        files.append(replace(file, sha256=digest))
        if progress is not None:
            progress(done, listing.bytes)
    _remove_others(folder, {file.name for file in listing.files})
    return tuple(files), copied


def _files(folder: Path, where: str) -> Iterator[RemoteFile]:
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            continue
        name = path.relative_to(folder).as_posix()
        if not stat.S_ISREG(mode):
            raise Refusal(State.REFUSED, "not a plain file", where=where, got=ascii(name)[:120])
        yield RemoteFile(name, path.lstat().st_size)


def _remove_others(folder: Path, names: set[str]) -> None:
    for path in folder.rglob("*"):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in names:
            path.unlink()


def _unreadable(reference: HubReference, error: OSError) -> Refusal:
    return Refusal(State.UNAVAILABLE, "cannot be read", where=str(reference), got=error.strerror or str(error))
