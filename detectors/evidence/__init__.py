"""What every detector hands on: a Finding, and the document its evidence digest stands for."""

from __future__ import annotations

from .document import Document, decimal, digest_of
from .finding import Exculpation, Finding, Kind, Party

__all__ = ["Document", "Exculpation", "Finding", "Kind", "Party", "decimal", "digest_of"]
