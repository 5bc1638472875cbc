"""Content-addressed blobs through fsspec: a local folder by default, an object store in production.

A blob is written under a temporary name and renamed when it is whole, so a reader never sees half of one, whatever
kills the writer. Its name is its SHA-256, checked on every read. Writing the same bytes twice is harmless.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ..errors import BadInput, StoreCorrupt, StoreUnavailable

PREFIX = "sha256:"
MISSING = "blob is missing"
BLOB_LIMIT = 256 << 20  # bytes; a fingerprint is below one MiB, an evidence bundle below some tens


def digest_of(data: bytes) -> str:
    """``sha256:`` and 64 hex digits."""
    return PREFIX + hashlib.sha256(data).hexdigest()


class Blobs:
    """A content-addressed store.

    Args:
        url: fsspec URL of its root, e.g. ``file:///var/lib/forensics/blobs`` or ``s3://bucket/prefix``.
        filesystem: The filesystem to use instead of the URL's own (for tests of failing disks).
    """

    def __init__(self, url: str, *, filesystem: Any = None) -> None:
        try:
            found = (filesystem, url) if filesystem else fsspec.core.url_to_fs(url)
            self._fs: Any = found[0]
            self._root: str = str(found[1]).rstrip("/")
        except (ValueError, ImportError) as error:
            raise BadInput("cannot understand the blob URL", where="setting blobs", got=str(error)) from None

    def put(self, data: bytes) -> str:
        """Store ``data`` and return its digest.

        Raises:
            StoreUnavailable: It could not be written; nothing half-written stays under its name.
        """
        digest = digest_of(data)
        final = self._path(digest)
        temporary = f"{self._root}/partial/{digest.removeprefix(PREFIX)[:16]}-{secrets.token_hex(8)}"
        try:
            if self._whole(final, data):
                return digest
            self._fs.makedirs(os.path.dirname(temporary), exist_ok=True)
            self._fs.makedirs(os.path.dirname(final), exist_ok=True)
            self._write(temporary, data)
            self._rename(temporary, final)
        except OSError as error:
            self._discard(temporary)
            raise StoreUnavailable(
                "cannot store a blob, nothing was changed",
                where=str(self._root),
                got=error.strerror or str(error),
                remedy="Free disk space or check permissions.",
            ) from None
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of ``digest``.

        Raises:
            StoreUnavailable: There is no such blob, or it cannot be read.
            StoreCorrupt: Its bytes have another digest.
        """
        path = self._path(digest)
        try:
            size = self._fs.size(path)
            if size is not None and size > BLOB_LIMIT:
                raise StoreCorrupt("blob is too large", where=path, got=size, expected=f"at most {BLOB_LIMIT} bytes")
            data: bytes = self._fs.cat_file(path)
        except FileNotFoundError:
            raise StoreUnavailable(MISSING, where=path, remedy="Register the model again.") from None
        except OSError as error:
            raise StoreUnavailable("cannot read a blob", where=path, got=error.strerror or str(error)) from None
        if digest_of(data) != digest:
            raise StoreCorrupt(
                "blob is damaged", where=path, got=digest_of(data), expected=digest, remedy="Register the model again."
            )
        return data

    def _path(self, digest: str) -> str:
        name = digest.removeprefix(PREFIX)
        if not digest.startswith(PREFIX) or len(name) != 64 or set(name) - set("0123456789abcdef"):
            raise StoreCorrupt("not a blob digest", got=digest[:100], expected="sha256: and 64 hex digits")
        return f"{self._root}/{name[:2]}/{name}"

    def _whole(self, path: str, data: bytes) -> bool:
        """Whether the blob is there as it should be; a damaged one is written anew."""
        try:
            return bool(self._fs.size(path) == len(data) and self._fs.cat_file(path) == data)
        except FileNotFoundError:
            return False

    def _write(self, path: str, data: bytes) -> None:
        with self._fs.open(path, "wb") as file:
            file.write(data)
            if isinstance(self._fs, LocalFileSystem):
                file.flush()
                os.fsync(file.fileno())

    def _rename(self, temporary: str, final: str) -> None:
        if isinstance(self._fs, LocalFileSystem):
            os.replace(temporary, final)
            _sync_folder(Path(final).parent)
        else:
            self._fs.mv(temporary, final)

    def _discard(self, temporary: str) -> None:
        with contextlib.suppress(OSError):
            self._fs.rm_file(temporary)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
