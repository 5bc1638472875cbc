"""Readers for checkpoints whose author may be hostile: ``open_checkpoint`` and what it returns."""

from __future__ import annotations

from fingerprint.checkpoint.interface import Checkpoint, CheckpointFile, TensorInfo
from fingerprint.checkpoint.limits import DEFAULT_LIMITS, Limits
from fingerprint.checkpoint.opening import open_checkpoint

__all__ = ["DEFAULT_LIMITS", "Checkpoint", "CheckpointFile", "Limits", "TensorInfo", "open_checkpoint"]
