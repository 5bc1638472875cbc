"""Backups of a home in one file: database, blobs, the log's public key and, when asked for, the sealed private keys."""

from __future__ import annotations

from .making import make
from .restoring import restore

__all__ = ["make", "restore"]
