"""The folder beside a model that holds what was claimed of it: ``model.attest`` next to ``model``.

Beside, never inside: what lies inside is signed, so a receipt put there would change the model it is for. Everything
in it may be published; nonces of sealed claims are kept under the home until they are opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import Unavailable

SUFFIX = ".attest"
CLAIM, RECEIPT = "claim.json", "claim.tlog-proof"
UNSIGNED = "claim.unsigned.json"
BUNDLE, BUNDLE_KEY = "model.sig", "model.sig.pub"
HINTS = "hints.json"
FINGERPRINT = "model.fp"
READ_LIMIT = 64 << 20

Write = Callable[[Path, bytes], None]


def shelf(model: Path) -> Path:
    """Where what is claimed of a model lies."""
    whole = model.resolve()
    return whole.parent / (whole.name + SUFFIX)


def receipt_of(statement: Path) -> Path:
    """Where the receipt of a statement file lies."""
    return statement.with_suffix(".tlog-proof")


def make(folder: Path) -> Path:
    """The folder, made where it is missing.

    Raises:
        Unavailable: It cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(
            "cannot make the folder for claims",
            where=str(folder),
            got=error.strerror or str(error),
            remedy="Give another place with --out.",
        ) from None
    return folder


def read(path: Path, *, limit: int = READ_LIMIT) -> bytes:
    """A file of it, or any other that was handed in.

    Raises:
        Unavailable: Absent, unreadable or too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise Unavailable("cannot be read", where=str(path), got=error.strerror or str(error)) from None
    if len(data) > limit:
        raise Unavailable("file is too large", where=str(path), expected=f"at most {limit} bytes")
    return data


def read_if(path: Path) -> bytes | None:
    """A file that need not be there."""
    return read(path) if path.is_file() else None
