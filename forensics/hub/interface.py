"""What is asked of a hub, and the states in which it may leave a checkpoint.

Every failure is one of a few words, for what follows from it differs: some are tried again by themselves, some become
final when a time of grace is over, and none of them is a sign of guilt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from ..errors import BadInput, Exit, ForensicsError
from .reference import HubReference

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""
GRACE: Final = timedelta(minutes=15)
"""How long after a commitment the hub may say that it knows nothing of it (design 4-detectors, section 5 no. 6)."""


class State(StrEnum):
    """Why a checkpoint could not be fetched."""

    NOT_FOUND = "not_found"
    """No such repository, or a private one: the hub does not tell which."""
    REVISION_MISSING = "revision_missing"
    """The repository is there and has no such commit."""
    GATED = "gated"
    """Its owner decides who may download, and we may not."""
    PRIVATE = "private"
    """The hub knows us and does not let us in."""
    TOO_LARGE = "too_large"
    """More bytes or files than we take."""
    REFUSED = "refused"
    """Its files are hostile or of kinds that we do not take."""
    CHANGED = "changed"
    """What came is not what was announced: another digest or size than the listing has."""
    UNAVAILABLE = "unavailable"
    """The hub is away, busy or broken."""
    DISK_FULL = "disk_full"
    """No room for it here."""


_TRANSIENT: Final = frozenset({State.UNAVAILABLE, State.DISK_FULL, State.CHANGED})
_GRACED: Final = frozenset({State.NOT_FOUND, State.REVISION_MISSING, State.GATED, State.PRIVATE})
_BAD: Final = frozenset({State.REFUSED, State.TOO_LARGE})


class Refusal(ForensicsError):
    """A checkpoint that could not be fetched.

    Args:
        state: Why.
        what: In a few words.
        where: Repository and commit, or the file of it.
        retry_after: Seconds after which the hub asks to be tried again.
    """

    def __init__(
        self,
        state: State,
        what: str,
        *,
        where: str = "",
        got: object = "",
        expected: object = "",
        remedy: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(what, where=where, got=got, expected=expected, remedy=remedy)
        self.state, self.retry_after, self.code = state, retry_after, f"hub_{state}"
        self.exit = Exit.BAD_INPUT if state in _BAD else Exit.UNAVAILABLE

    def terminal(self, since_commit: timedelta) -> bool:
        """Whether trying again is of no use, so long after the commitment was made.

        What is away comes back; what the hub denies may be published late; what is hostile stays so.
        """
        if self.state in _TRANSIENT:
            return False
        return self.state in _BAD or since_commit >= GRACE


class HubMisuse(BadInput):
    """A path or setting of a hub that makes no sense."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a listing.

    Args:
        name: Its path within the repository.
        size: Bytes.
        sha256: Digest of its content, 64 hex digits, where the hub stores it by that (large files).
        blob: Git's object id, 40 hex digits, where it does not (small files).
    """

    name: str
    size: int
    sha256: str | None = None
    blob: str | None = None

    @property
    def identity(self) -> str:
        """What the hub says the content is."""
        return f"sha256:{self.sha256}" if self.sha256 else f"git:{self.blob}"


@dataclass(frozen=True)
class Listing:
    """The files of a repository at a commit, by name, before anything is downloaded."""

    reference: HubReference
    files: tuple[RemoteFile, ...]

    @property
    def bytes(self) -> int:
        """Their sizes in all."""
        return sum(file.size for file in self.files)

    def key(self) -> str | None:
        """What the model is, as far as the hub says before anything is fetched; None when it does not say enough.

        Over names and digests of weights and JSON files: equal keys are equal bytes wherever a fingerprint looks.
        """
        looked_at = [file for file in self.files if is_weights(file.name) or file.name.endswith(".json")]
        if not any(is_weights(file.name) for file in looked_at):
            return None
        if any(is_weights(file.name) and file.sha256 is None for file in looked_at):
            return None
        lines = sorted(f"{file.identity} {file.name}\n" for file in looked_at)
        return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class Fetched:
    """A checkpoint on this machine.

    Args:
        path: Its folder.
        files: What is in it.
        bytes: Their sizes in all.
        seconds: How long it took.
        downloaded: Bytes that came over the network; the rest was here already.
    """

    path: Path
    files: tuple[RemoteFile, ...]
    bytes: int
    seconds: float
    downloaded: int


class Hub(Protocol):
    """Where checkpoints come from. Every method raises ``Refusal``."""

    def list(self, reference: HubReference) -> Listing:
        """Names and sizes, checked against the limits; nothing is downloaded."""

    def fetch(self, reference: HubReference, folder: Path, progress: Progress | None = None) -> Fetched:
        """Bring a checkpoint into ``folder``, whole, with every digest checked; goes on where it was interrupted.

        Args:
            reference: Which.
            folder: Made when absent; files that are there and right are kept, other files are removed.
            progress: Told of bytes as they come.
        """


WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx")


def is_weights(name: str) -> bool:
    """Whether a file holds weights, by its name."""
    return name.lower().endswith(WEIGHTS)
