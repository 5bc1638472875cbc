"""Verdict reads: signed bytes as they are stored, held in memory, so that asking is cheap however many ask."""

from __future__ import annotations
