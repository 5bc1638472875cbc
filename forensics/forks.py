"""What this home holds against logs: signed checkpoints that do not go together, and what was served in their name.

The files lie under ``FORENSICS_HOME/evidence``, named ``WHAT-PUBLIC_KEY-DIGEST.checkpoint``. A key with evidence of two
histories (``fork``) is trusted for nothing here, under any name, until somebody looked and removed the files by hand.
The other kinds warn and condemn nobody: an old answer from a cache or a tile damaged on the way looks the same.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from attest.log.note import NoteKey

from .errors import BadInput, StoreUnavailable

FOLDER = "evidence"


class Case(StrEnum):
    """What evidence is of."""

    FORK = "fork"
    SMALLER = "smaller"
    UNPROVEN = "unproven"
    TAMPERED = "tampered"


class Forks:
    """Evidence in one folder.

    Args:
        folder: Where it is; made when there is something to keep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, case: Case, key: NoteKey, notes: Iterable[bytes], served: Iterable[tuple[str, bytes]] = ()) -> Path:
        """Keep signed checkpoints, and what was served with them; returns the folder.

        Raises:
            StoreUnavailable: It cannot be written.
        """
        for note in notes:
            self._write(f"{case}-{key.public.hex()}-{_short(note)}.checkpoint", note)
        for path, data in served:
            self._write(f"{case}-{key.public.hex()}-{_short(data)}-{path.replace('/', '_')}", data)
        return self.folder

    def against(self, key: NoteKey) -> tuple[Path, ...]:
        """Evidence that this key signed two histories."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(self.folder.glob(f"{Case.FORK}-{key.public.hex()}-*.checkpoint")))

    def check(self, key: NoteKey) -> None:
        """Refuse a key that signed two histories.

        Raises:
            BadInput: There is evidence that it did.
        """
        found = self.against(key)
        if found:
            raise BadInput(
                "this home holds evidence that the log has two histories",
                where=key.name,
                got=", ".join(str(path) for path in found),
                expected="one history",
                remedy="Trust it for nothing. Only when you know better, remove these files by hand.",
            )

    def _write(self, name: str, data: bytes) -> None:
        temporary = self.folder / f".{secrets.token_hex(8)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.folder / name)
        except OSError as error:
            raise StoreUnavailable("cannot keep evidence", where=str(self.folder), got=str(error)) from None


def _short(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]
