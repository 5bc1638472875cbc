"""OpenSSF Model Signing bundles: sign a checkpoint folder, and check one, more strictly than the reference tool."""

from __future__ import annotations

from .bundle import CheckedFolder, open_bundle, sign, verify_folder
from .hashing import Hashed, hash_folder, load_hints
from .manifest import Manifest, Resource

__all__ = [
    "CheckedFolder",
    "Hashed",
    "Manifest",
    "Resource",
    "hash_folder",
    "load_hints",
    "open_bundle",
    "sign",
    "verify_folder",
]
