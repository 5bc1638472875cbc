"""Everything a claim names of a model, from one read of its files.

Content root and nameless root are over tensors, the OMS root over files. Where tensors lie in the files as they are,
each chunk is digested for both while it is in memory, on two threads; so signing costs about what SHA-256 alone does.
With hints from the last time only changed files are read at all. A fingerprint needs the weights in another order:
then the scan digests the tensors, and the files are digested beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from attest import canonical
from attest.claims import Roots
from attest.errors import MalformedInput
from attest.lineage import Tensors
from attest.modelsigning import Hashed, Manifest, hash_folder, load_hints
from attest.modelsigning.hashing import Draw, Hint, Listen, list_files
from fingerprint.checkpoint import open_checkpoint
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.content import content_root, nameless_root
from fingerprint.digests import FileSink, TensorDigests
from fingerprint.scan import Progress, scan

HINTS_SCHEMA: Final = "forensics/measure-hints/v1"
Kept = Mapping[str, Mapping[str, str]]
"""Tensor digests by file and name."""


@dataclass(frozen=True)
class Hints:
    """What was measured last time; saves work, proves nothing, and is signed unread: only take what ``unseal`` gave.

    Args:
        files: For ``hash_folder``.
        tensors: Digests of the tensors of each file.
    """

    files: Mapping[str, Hint] = field(default_factory=dict)
    tensors: Kept = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What a model is.

    Args:
        digests: Hex SHA-256 by tensor name.
        hashed: Its files; None for a single file, which has no bundle.
        by_file: Tensor digests by file, to be kept as hints.
        fingerprint: The fingerprint file, where one was asked for.
    """

    digests: Mapping[str, str]
    hashed: Hashed | None
    by_file: Kept = field(default_factory=dict)
    fingerprint: bytes | None = None

    @property
    def oms_root(self) -> str | None:
        """``sha256:`` root of the files; None without files."""
        if self.hashed is None or not self.hashed.resources:
            return None
        return "sha256:" + Manifest("model", self.hashed.resources, self.hashed.shard_size).root.hex()

    @property
    def roots(self) -> Roots:
        """All roots that a claim can name."""
        return Roots(content_root(self.digests.items()), nameless_root(self.digests.values()), self.oms_root)

    @property
    def tensors(self) -> Tensors:
        """For lineage claims."""
        return Tensors(self.digests)

    def hints(self) -> bytes:
        """What to keep for next time, outside the folder and sealed."""
        whole: dict[str, Any] = {
            "schema": HINTS_SCHEMA,
            "files": canonical.read(self.hashed.dump()) if self.hashed is not None else None,
            "tensors": {file: dict(digests) for file, digests in self.by_file.items()},
        }
        return canonical.write(whole)


def read_hints(data: bytes, *, shard_size: int | None) -> Hints:
    """Hints as ``Measured.hints`` wrote them; damaged or foreign ones are no hints.

    They are a convenience of this machine: what cannot be read is measured again. Whose they are is not checked here:
    ``authentic.unseal`` does that.
    """
    try:
        whole: Any = canonical.read_object(data, where="hints")
        if whole.get("schema") != HINTS_SCHEMA or not isinstance(whole.get("files"), dict):
            return Hints()
        tensors = whole["tensors"]
        good = all(isinstance(d, dict) and all(_is_digest(v) for v in d.values()) for d in tensors.values())
        return Hints(load_hints(canonical.write(whole["files"]), shard_size=shard_size), tensors) if good else Hints()
    except (MalformedInput, KeyError, AttributeError):
        return Hints()


def measure(
    path: Path,
    *,
    shard_size: int | None = None,
    hints: Hints | None = None,
    spot_check: int = 0,
    draw: Draw | None = None,
    fingerprint: bool = False,
    progress: Progress | None = None,
    files: bool = True,
) -> Measured:
    """Measure a model.

    Args:
        path: Folder or weight file.
        shard_size: Digest the files in pieces of so many bytes.
        hints: From last time.
        spot_check: Random chunks of files that look unchanged to be hashed all the same.
        draw: ``draw(n)`` is a random number below n; without it no chunks can be checked next time.
        fingerprint: Also make the fingerprint.
        progress: Told of bytes read.
        files: Whether the files are digested, or only the tensors.

    Raises:
        CheckpointError: The weights cannot be trusted or understood.
        BundleError: Something in the folder cannot be signed (a symbolic link, a pipe).
        ContentMismatch: A file changed, or a spot check failed.
    """
    path = path.resolve()
    known = hints or Hints()
    with open_checkpoint(path) as checkpoint:
        digests = TensorDigests(checkpoint)

        def hashed(listen: bool) -> Hashed | None:
            if not (files and path.is_dir()):
                return None
            return hash_folder(
                path,
                shard_size=shard_size,
                hints=known.files,
                spot_check=spot_check,
                draw=draw,
                listen=_told(path, digests, progress) if listen else None,
            )

        if fingerprint:
            return _with_fingerprint(checkpoint, lambda: hashed(False), progress)
        found = hashed(True)
        kept = {file: known.tensors[file] for file in (found.reused if found else ()) if file in known.tensors}
        tensors = digests.finish(kept)
        return Measured(tensors, found, {**kept, **digests.by_file()})


def _told(folder: Path, digests: TensorDigests, progress: Progress | None) -> Listen:
    """Who listens to a file: its tensors' digests, and whoever watches."""
    if progress is None:
        return digests.sink
    total, done, lock = sum(now.st_size for now in list_files(folder).values()), 0, Lock()

    def tell(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            progress(done, total)

    return lambda name: _Watched(digests.sink(name), tell)


class _Watched:
    """A listener that also says how far it is."""

    def __init__(self, inner: FileSink | None, tell: Callable[[int], None]) -> None:
        self._inner, self._tell = inner, tell

    def update(self, chunk: memoryview) -> None:
        """Pass the bytes on."""
        if self._inner is not None:
            self._inner.update(chunk)
        self._tell(len(chunk))


def _with_fingerprint(
    checkpoint: Checkpoint, hashed: Callable[[], Hashed | None], progress: Progress | None
) -> Measured:
    from fingerprint.file import dumps

    with ThreadPoolExecutor(1) as beside:
        files = beside.submit(hashed)
        made = scan(checkpoint, progress=progress)
        found = files.result()
    return Measured({entry.name: entry.digest for entry in made.tensors}, found, {}, dumps(made))


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")
