"""An append-only log that anyone can check: RFC 6962 tree, C2SP checkpoints, tiles and receipts."""

from __future__ import annotations

from .log import Log
from .note import Checkpoint, NoteKey, open_checkpoint
from .proof import Receipt, parse_receipt, verify_receipt
from .view import LogView

__all__ = ["Checkpoint", "Log", "LogView", "NoteKey", "Receipt", "open_checkpoint", "parse_receipt", "verify_receipt"]
