"""The transparency log's storage in a database: SQLite or PostgreSQL, append-only inside the database itself."""

from __future__ import annotations

from .anchors import DatabaseAnchors
from .storage import DatabaseLog
from .tables import prepare

__all__ = ["DatabaseAnchors", "DatabaseLog", "prepare"]
