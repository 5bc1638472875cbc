"""Sealed claims that are not opened yet: nonce and root, kept under the home with nobody else's eyes on them.

Losing this file loses the claim: without the nonce a seal cannot be opened. Showing it gives nothing away but the
secret that the model is; nobody else can open the seal with it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from attest import envelope as dsse
from attest.statement import parse

from ..errors import NotKnown, StoreCorrupt, StoreUnavailable

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NONCE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Sealed:
    """What opens a sealed claim.

    Args:
        statement: Digest of the sealed statement.
        root: Content root that was sealed.
        nonce: 64 hex digits, secret.
        envelope: The sealed statement as it was signed, DSSE JSON.
    """

    statement: str
    root: str
    nonce: str
    envelope: str

    @property
    def by(self) -> str:
        """Address of the hotkey that sealed."""
        return parse(dsse.read(self.envelope.encode()).payload).context.hotkey

    def __repr__(self) -> str:
        return f"Sealed(statement={self.statement!r})"


class SealedClaims:
    """The sealed claims of one home, one file each.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, sealed: Sealed) -> Path:
        """Store it before anything is published, readable by its owner alone.

        Raises:
            StoreUnavailable: It cannot be written.
        """
        path = self._folder / f"{sealed.statement.removeprefix('sha256:')}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(sealed), file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreUnavailable("cannot keep the nonce", where=str(path), got=error.strerror or str(error)) from None
        return path

    def find(self, root: str) -> list[Sealed]:
        """Sealed claims to this content root, oldest first."""
        if not self._folder.is_dir():
            return []
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [sealed for sealed in map(_read, files) if sealed.root == root]

    def one(self, root: str, statement: str | None = None, *, hotkey: str = "") -> Sealed:
        """The sealed claim to this content root: the one named, else the oldest of this hotkey, else the oldest.

        Raises:
            NotKnown: There is none here.
        """
        found = [sealed for sealed in self.find(root) if statement in (None, sealed.statement)]
        own = [sealed for sealed in found if sealed.by == hotkey]
        if found:
            return (own or found)[0]
        raise NotKnown(
            "no sealed claim to this model is kept here",
            where=str(self._folder),
            got=statement or root,
            remedy="Open it with the FORENSICS_HOME that sealed it, and with the model as it was then.",
        )


def _read(path: Path) -> Sealed:
    try:
        with path.open() as file:
            sealed = Sealed(**json.loads(file.read(1 << 20)))
    except (OSError, ValueError, TypeError) as error:
        raise StoreCorrupt("a sealed claim cannot be read", where=str(path), got=type(error).__name__) from None
    if not (_DIGEST.fullmatch(sealed.statement) and _DIGEST.fullmatch(sealed.root) and _NONCE.fullmatch(sealed.nonce)):
        raise StoreCorrupt("a sealed claim is malformed", where=str(path))
    return sealed
