"""Hints that this home wrote for this model, told from all others.

Hints lie beside the model in a folder that may be published, copied or sent, and a digest taken from them is signed
unread. So they carry an HMAC-SHA256 under a secret of the home, bound to where the model lies: hints that somebody else
shipped, changed, or moved over from another model are worth nothing.
"""

from __future__ import annotations

import hmac
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from attest import canonical
from attest.errors import MalformedInput

LIMIT: Final = 64 << 20
SCHEMA: Final = "forensics/authentic-hints/v1"


def seal(hints: bytes, *, key: bytes, model: Path) -> bytes:
    """Hints with their code, to be kept.

    Args:
        hints: Canonical JSON.
        key: The home's secret.
        model: What they are of.
    """
    read = canonical.read(hints, max_bytes=LIMIT)
    return canonical.write({"schema": SCHEMA, "hints": read, "mac": _mac(hints, key, model)})


def unseal(data: bytes, *, key: bytes, model: Path) -> bytes | None:
    """The hints that ``seal`` was given; None when anything about them is not ours."""
    try:
        whole: Any = canonical.read_object(data, where="hints", max_bytes=LIMIT)
        if whole.get("schema") != SCHEMA or not isinstance(whole.get("mac"), str):
            return None
        hints = canonical.write(whole.get("hints"))
    except MalformedInput:
        return None
    right = hmac.compare_digest(whole["mac"].encode(), _mac(hints, key, model).encode())
    return hints if right else None


def _mac(hints: bytes, key: bytes, model: Path) -> str:
    place = sha256(os.fsencode(model.resolve())).digest()
    return hmac.digest(key, SCHEMA.encode() + b"\0" + place + hints, "sha256").hex()
