"""Where an entry's files come from and where they are put: one folder a repository and commit, for all who name it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from ..entries.claimed import Claimed
from ..hub import Hub, HubReference, Refusal
from ..hub.interface import State


class HubFetcher:
    """Fetches from a hub into a folder of the home.

    Args:
        hub: The hub.
        folder: Where checkpoints are kept.
    """

    def __init__(self, hub: Hub, folder: Path) -> None:
        self._hub, self._folder = hub, folder

    def fetch(self, claimed: Claimed) -> Path:
        """The files of a claim; resumed where it was broken off.

        Raises:
            Refusal: With its state.
        """
        try:
            reference = HubReference(claimed.repo, claimed.revision)
        except ValueError:
            raise Refusal(State.REFUSED, "not a repository at a commit", where=claimed.repo[:100]) from None
        return self._hub.fetch(reference, self.place(claimed)).path

    def place(self, claimed: Claimed) -> Path:
        """The folder of a repository at a commit."""
        name = hashlib.sha256(f"{claimed.repo}@{claimed.revision}".encode()).hexdigest()[:40]
        return self._folder / name

    def sweep(self, keep: int, working: frozenset[str]) -> int:
        """Remove the checkpoints that were longest unused, until at most ``keep`` bytes are left; how many those were.

        Args:
            keep: Bytes.
            working: Folders that are being worked on.
        """
        if not self._folder.is_dir():
            return 0
        found = sorted((p for p in self._folder.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
        sizes = {p: sum(f.stat().st_size for f in p.rglob("*") if f.is_file()) for p in found}
        total, removed = sum(sizes.values()), 0
        for path in found:
            if total <= keep:
                break
            if str(path) not in working:
                shutil.rmtree(path, ignore_errors=True)
                total, removed = total - sizes[path], removed + 1
        return removed


def host_of(hub: str) -> str:
    """What limits per host go by: the hub's host, or ``local``."""
    return urlsplit(hub).netloc or "local"
