"""Snapshots: every verdict of a subnet at a block, signed, logged, numbered without gaps, stored as served."""

from __future__ import annotations

from .publisher import Publisher
from .shelf import Shelf, Stored

__all__ = ["Publisher", "Shelf", "Stored"]
