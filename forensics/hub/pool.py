"""Large files that came before, by their SHA-256: what the hub says it has is not fetched twice, whoever submits it.

Files are linked, not copied, where the file system allows it. The oldest leave when the pool is full.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from .files import digest_of


class Pool:
    """A folder of files named by their digest.

    Args:
        folder: Made when first used.
        max_bytes: Largest sum of sizes that is kept.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder, self._max = folder, max_bytes

    def take(self, sha256: str, target: Path, *, size: int) -> bool:
        """Put a file of this digest at ``target``; whether there is one. It is hashed again before it is believed."""
        held = self._place(sha256)
        try:
            if held.stat().st_size != size or digest_of(held) != sha256:
                held.unlink()
                return False
            _link(held, target)
            os.utime(held)
        except OSError:
            return False
        return True

    def keep(self, sha256: str, path: Path) -> None:
        """Remember a file whose digest was checked; a failure is none, for the pool only saves work."""
        held = self._place(sha256)
        with contextlib.suppress(OSError):
            if path.stat().st_size <= self._max and not held.exists():
                held.parent.mkdir(parents=True, exist_ok=True)
                _link(path, held)
                self._prune()

    def _prune(self) -> None:
        """Remove the files that were not asked for longest, until the rest fits."""
        held = sorted((path.stat().st_mtime_ns, path.stat().st_size, path) for path in self._folder.glob("*/*"))
        total = sum(size for _, size, _ in held)
        for _, size, path in held:
            if total <= self._max:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _place(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256


def _link(source: Path, target: Path) -> None:
    temporary = target.with_name(f".{secrets.token_hex(8)}")
    try:
        try:
            os.link(source, temporary)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
