"""Undoing symmetries: bring a candidate into the reference's gauge, with a witness of what was undone."""

from __future__ import annotations

from .alignment import Alignment, Witness
from .engine import align
from .model import Canonical, load

__all__ = ["Alignment", "Canonical", "Witness", "align", "load"]
