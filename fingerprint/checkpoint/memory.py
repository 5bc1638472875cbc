"""A file seen as tensors without copying it, and without its pages piling up in our resident set.

The map is private and writable, because torch warns about read-only buffers; nothing writes to it, so no page is ever
copied. ``MAP_NORESERVE`` keeps the kernel from setting memory aside for that possibility: a 400 GB file maps on a
small machine. Consumed pages are dropped by ``MADV_DONTNEED`` (they stay in the page cache), which is what keeps
``ru_maxrss`` flat: 8 GB read like 8 MB.

A file that shrinks while it is mapped ends the process with SIGBUS; give a folder that nobody else writes to.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from pathlib import Path

import torch

from fingerprint.errors import CheckpointUnavailable, MalformedCheckpoint, UnsupportedCheckpoint

_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # named from Python 3.13 on; this is Linux's value
_PAGE = mmap.PAGESIZE


def open_regular(path: Path) -> int:
    """A read-only descriptor of a regular file.

    Raises:
        CheckpointUnavailable: Absent or unreadable.
        UnsupportedCheckpoint: A directory, pipe, socket or device (opening a pipe would wait for ever).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointUnavailable(
            "cannot be opened", where=path.name, got=reason, remedy="Check the path and its permissions."
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsupportedCheckpoint("not a regular file", where=path.name, expected="a file with weights")
    return descriptor


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """At most ``max_bytes + 1`` bytes of a regular file; one byte over lets the caller see that it is too long."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(max_bytes + 1)


class MappedFile:
    """One weight file, mapped for as long as tensors over it live.

    Attributes:
        name: File name for messages.
        size: Bytes.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        descriptor = open_regular(path)
        try:
            self.size = os.fstat(descriptor).st_size
            self._map: mmap.mmap | None = None
            if self.size:
                flags = mmap.MAP_PRIVATE | _MAP_NORESERVE
                self._map = mmap.mmap(descriptor, self.size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError as error:
            raise CheckpointUnavailable("cannot be mapped", where=self.name, got=error.strerror) from None
        finally:
            os.close(descriptor)
        # torch.frombuffer lets go of the buffer but holds on to the object it was given. Given this view, a tensor
        # keeps the map from being unmapped beneath it; given the map itself, it would not.
        self._view = memoryview(b"") if self._map is None else memoryview(self._map)

    def read(self, begin: int, end: int) -> bytes:
        """A copy of ``[begin, end)``; shorter where the file ends."""
        return b"" if self._map is None else self._map[begin:end]

    def raw(self, begin: int, end: int) -> memoryview:
        """``[begin, end)`` as a read-only view."""
        return self._view.toreadonly()[begin:end]

    def flat(self, begin: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """``count`` (> 0) little-endian elements from byte ``begin``; a copy only where they lie misaligned.

        Raises:
            MalformedCheckpoint: The range leaves the file (a reader's bug, never an attacker's way in).
        """
        end = begin + count * dtype.itemsize
        if self._map is None or begin < 0 or count < 1 or end > self.size:
            raise MalformedCheckpoint("range leaves the file", where=self.name, got=(begin, end), expected=self.size)
        if dtype == torch.bool:
            return self._booleans(begin, count)
        if begin % dtype.itemsize:
            return torch.frombuffer(bytearray(self._map[begin:end]), dtype=dtype)
        return torch.frombuffer(self._view, dtype=dtype, count=count, offset=begin)

    def _booleans(self, begin: int, count: int) -> torch.Tensor:
        """Bytes other than 0 and 1 are undefined as torch.bool: two readers would see two models."""
        codes = self.flat(begin, count, torch.uint8)
        if int(codes.max()) > 1:
            raise MalformedCheckpoint(
                "BOOL byte is neither 0 nor 1", where=self.name, got=int(codes.max()), expected="0 or 1"
            )
        return codes.view(torch.bool)

    def release(self, begin: int, end: int) -> None:
        """Drop the whole pages inside ``[begin, end)`` from the resident set; a later read brings them back."""
        first, last = -(-begin // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if self._map is not None and last > first:
            with contextlib.suppress(OSError, ValueError):  # only an economy; a closed map has nothing to drop
                self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def close(self) -> None:
        """Unmap now, or when the last tensor over the map is gone."""
        self._view = memoryview(b"")
        if self._map is not None:
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
