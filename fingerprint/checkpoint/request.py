"""What every container's reader is given: the settled files and what lies beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fingerprint.checkpoint.folder import WeightFiles
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.limits import Limits

Tokens = Callable[[], tuple[str, ...] | None]
"""Reads the tokenizer when asked, not before."""


@dataclass(frozen=True)
class Request:
    """A checkpoint to open.

    Attributes:
        path: What the user gave.
        sources: The weight files, links resolved, in the order of ``files.names``.
        files: The set, with its index.
        config: Parsed ``config.json``.
        tokens: Reads the tokenizer beside the weights.
        limits: Bounds.
    """

    path: Path
    sources: tuple[Path, ...]
    files: WeightFiles
    config: Mapping[str, Any]
    tokens: Tokens
    limits: Limits


Reader = Callable[[Request], Checkpoint]
