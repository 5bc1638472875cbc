"""Files a command writes: whole or not at all, and never over a folder or a device."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from ..errors import Unavailable, UsageError


def write_file(path: Path, data: bytes, *, option: str) -> None:
    """Write ``data`` beside ``path`` and rename.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist.
        Unavailable: It could not be written; what was at ``path`` is still there.
    """
    check_file(path, option=option)
    temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Unavailable(
            "cannot write, nothing was changed",
            where=str(path),
            got=error.strerror or str(error),
            remedy="Free disk space or choose another place.",
        ) from None


def check_file(path: Path, *, option: str) -> None:
    """Refuse a place that cannot be written to before minutes are spent on what should go there."""
    if path.is_dir() or (path.exists() and not path.is_file()):
        raise UsageError("not a file", where=option, got=str(path))
    if not path.parent.is_dir():
        raise UsageError("no such folder", where=option, got=str(path.parent))
