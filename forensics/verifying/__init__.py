"""Checking anything that this project hands out, offline, and saying in words what that proves and what it does not."""

from __future__ import annotations
