"""Fingerprints as bytes: what a blob and a member of an evidence bundle hold is exactly a fingerprint file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fingerprint.fingerprint import Fingerprint


def encode(fingerprint: Fingerprint) -> bytes:
    """A fingerprint as the bytes of its file."""
    from fingerprint.file import save

    with tempfile.TemporaryDirectory(prefix="forensics-") as folder:
        path = Path(folder) / "fingerprint"
        save(fingerprint, path)
        return path.read_bytes()


def decode(data: bytes) -> Fingerprint:
    """A fingerprint from the bytes of its file.

    Raises:
        FingerprintFileError: They are damaged or of an unknown algorithm.
    """
    from fingerprint.file import load

    with tempfile.TemporaryDirectory(prefix="forensics-") as folder:
        path = Path(folder) / "fingerprint"
        path.write_bytes(data)
        return load(path)
