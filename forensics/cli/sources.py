"""What a PATH on the command line is: a checkpoint, a fingerprint file, a hub commit or a known model.

``known:DIGEST`` (or a full ``sha256:...`` content root) names a registered model by its content root; everything else
is looked for on this machine first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fingerprint.errors import CheckpointUnavailable

from ..errors import UsageError
from ..known.claim import KnownModel
from . import hub
from .console import progress, say
from .home import Home

if TYPE_CHECKING:
    from fingerprint.checkpoint.interface import Checkpoint
    from fingerprint.compare import Source
    from fingerprint.fingerprint import Fingerprint

_KNOWN = ("known:", "sha256:")
_LENGTH = 8  # bytes of a safetensors header's length
_FINGERPRINT = b'{"__metadata__":{"fingerprint":"{\\"algorithm\\":\\"fingerprint-v'


@dataclass(frozen=True)
class Opened:
    """A side of a comparison, ready to be compared.

    Attributes:
        text: What the user wrote.
        fingerprint: Its fingerprint.
        checkpoint: Its weights, open; None for a fingerprint file or a model known by its fingerprint alone.
        known: Its registry entry, when it was named by one.
    """

    text: str
    fingerprint: Fingerprint
    checkpoint: Checkpoint | None = None
    known: KnownModel | None = None

    def source(self) -> Source:
        """As ``fingerprint.compare`` takes it."""
        from fingerprint.compare import Source

        return Source(self.fingerprint, self.checkpoint)

    def without_weights(self) -> Opened:
        """The fingerprint alone."""
        return replace(self, checkpoint=None)


def path_of(text: str, home: Home) -> Path:
    """The file or folder that ``text`` names; a hub commit is fetched when it is not on this machine.

    Raises:
        UsageError: A hub reference without a full commit.
        CheckpointUnavailable: There is nothing there.
        Refusal: The hub does not have it, or it is not taken.
    """
    path = Path(text).expanduser()
    if path.exists():
        return path
    reference = hub.parse(text)
    if reference is not None:
        return hub.fetched(reference, home.settings)
    raise CheckpointUnavailable("no such file or folder", where=text, remedy="Check the path.")


@contextmanager
def opened(text: str, home: Home) -> Iterator[Opened]:
    """Open ``text``, making its fingerprint where it is a checkpoint; closed on leaving."""
    if text.startswith(_KNOWN):
        model = home.registry.find(text.removeprefix("known:"))
        yield Opened(text, home.registry.fingerprint(model), known=model)
        return
    path = path_of(text, home)
    if is_fingerprint(path):
        from fingerprint.file import load

        yield Opened(text, load(path))
        return
    with checkpoint(path) as weights:
        yield Opened(text, scanned(weights), weights)


@contextmanager
def checkpoint(path: Path) -> Iterator[Checkpoint]:
    """A checkpoint, open.

    Raises:
        CheckpointError: It is damaged, hostile or not supported.
    """
    from fingerprint.checkpoint import open_checkpoint

    with open_checkpoint(path) as weights:
        yield weights


def scanned(weights: Checkpoint) -> Fingerprint:
    """The fingerprint of a checkpoint, with a progress bar where somebody is watching."""
    from fingerprint.scan import scan

    with progress(f"reading {weights.path.name}") as bar:
        fingerprint = scan(weights, progress=bar)
    for note in fingerprint.meta.notes:
        say(f"note: {note}")
    return fingerprint


def is_fingerprint(path: Path) -> bool:
    """Whether a file is a fingerprint rather than a checkpoint, by how its header starts.

    Only a choice of reader: the one chosen believes nothing it has not checked.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(_LENGTH + len(_FINGERPRINT))[_LENGTH:] == _FINGERPRINT
    except OSError as error:
        raise CheckpointUnavailable("cannot be read", where=str(path), got=error.strerror or str(error)) from None


def need_checkpoint(text: str, home: Home) -> Path:
    """The path of a checkpoint; a fingerprint file or known model will not do.

    Raises:
        UsageError: It is one of those.
    """
    if text.startswith(_KNOWN):
        raise UsageError("the weights themselves are needed here", got=text[:80], expected="a checkpoint")
    path = path_of(text, home)
    if is_fingerprint(path):
        raise UsageError("the weights themselves are needed here", where=text, got="a fingerprint file")
    return path
