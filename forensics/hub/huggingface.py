"""The Hugging Face hub: listing, a look at the headers of the weights, then the files themselves.

Endpoints and errors are those of huggingface_hub (2.4). The bytes are fetched here, because its own download starts
over after a kill, follows any redirect, and keeps what came without comparing it to the digest of the listing. A file
that is interrupted goes on where it stopped, and is believed when its digest is the listed one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ..errors import BadInput
from ..fields import integer, text
from . import files as disk
from .interface import Fetched, Listing, Progress, Refusal, RemoteFile, State
from .limits import FetchLimits
from .pool import Pool
from .reference import HubReference
from .wire import Wire, starts_at

LISTING_BYTES: Final = 16 << 20
HEADER_LENGTH: Final = 8  # bytes of a safetensors header's own length
FIRST_LOOK: Final = 1 << 16
LOOK_ABOVE: Final = 1 << 20
"""Weights up to this size are fetched without a look at their header before."""
TRIES: Final = 4
WAIT: Final = 2.0
"""Seconds before the second try; doubled for each one after it."""
PATIENCE: Final = 60.0
"""Seconds that are waited here; who is asked to wait longer says so, and is called again."""
T = TypeVar("T")


class HuggingFaceHub:
    """Repositories at commits, from the hub.

    Args:
        wire: The connection.
        limits: What a repository may ask of us.
        pool: Files that came before, by digest; None to keep none.
        sleep: Waits between two tries.
        tries: How often a hub that is away is asked.
    """

    def __init__(
        self,
        wire: Wire,
        limits: FetchLimits | None = None,
        *,
        pool: Pool | None = None,
        sleep: Callable[[float], object] = time.sleep,
        tries: int = TRIES,
    ) -> None:
        self._wire, self._limits, self._pool, self._sleep = wire, limits or FetchLimits(), pool, sleep
        self._tries = {State.UNAVAILABLE: tries, State.CHANGED: min(tries, 2)}

    def close(self) -> None:
        """Close its connections."""
        self._wire.client.close()

    def list(self, reference: HubReference) -> Listing:
        """Names, sizes and digests of the files that would be fetched."""
        path = f"api/models/{reference.repo}/revision/{reference.revision}?blobs=true"
        raw = self._again(lambda: self._wire.small(path, where=str(reference), max_bytes=LISTING_BYTES))
        return self._limits.choose(reference, _listed(raw, reference))

    def fetch(self, reference: HubReference, folder: Path, progress: Progress | None = None) -> Fetched:
        """Bring a repository into a folder; whoever comes second waits, and finds it there."""
        began = time.monotonic()
        listing = self.list(reference)
        with _disk(folder), disk.alone(folder):
            missing = [file for file in listing.files if not self._is_there(folder, file)]
            disk.room_for(folder, sum(file.size for file in missing), keep_free=self._limits.keep_free)
            for file in missing:
                if file.name.endswith(".safetensors") and file.size > LOOK_ABOVE:
                    self.look(reference, file)
            folder.mkdir(parents=True, exist_ok=True)
            done, came = listing.bytes - sum(file.size for file in missing), 0
            for file in missing:
                at = done
                told = None if progress is None else (lambda n, at=at: progress(at + n, listing.bytes))
                came += self._bring(reference, file, folder, told)
                done += file.size
            _remove_others(folder, {file.name for file in listing.files})
        return Fetched(folder, listing.files, listing.bytes, time.monotonic() - began, came)

    def look(self, reference: HubReference, file: RemoteFile) -> None:
        """Read a safetensors file's header alone, and refuse what the full file would be refused for.

        Raises:
            Refusal: ``refused``, for a header that contradicts itself or is too long.
        """
        from fingerprint.checkpoint.limits import DEFAULT_LIMITS
        from fingerprint.checkpoint.safetensors import parse_header
        from fingerprint.errors import CheckpointError

        where = f"{reference}: {file.name}"
        begin = self._part(reference, file, 0, min(FIRST_LOOK, file.size))
        length = int.from_bytes(begin[:HEADER_LENGTH], "little")
        if length > min(DEFAULT_LIMITS.header_bytes, file.size - HEADER_LENGTH):
            raise Refusal(State.REFUSED, "header longer than we take", where=where, got=f"{length} bytes",
                          expected=f"<= {DEFAULT_LIMITS.header_bytes}")  # fmt: skip
        end = HEADER_LENGTH + length
        if end > len(begin):
            begin += self._part(reference, file, len(begin), end)
        try:
            parse_header(begin[HEADER_LENGTH:end], data_bytes=file.size - end, where=file.name)
        except CheckpointError as error:
            raise Refusal(State.REFUSED, error.what, where=where, got=error.got, expected=error.expected) from None

    def _part(self, reference: HubReference, file: RemoteFile, first: int, end: int) -> bytes:
        """Bytes ``first`` to ``end`` (not included) of a file, whole."""
        where = f"{reference}: {file.name}"

        def once() -> bytes:
            with self._wire.open(_path(reference, file), where=where, first=first, last=end - 1) as answer:
                start = starts_at(answer, first, file.size, where=where)
                body = b"".join(self._wire.body(answer, where=where, most=end - start))[first - start :]
            if len(body) != end - first:
                raise _cut(where, len(body), end - first)
            return body

        return self._again(once)

    def _is_there(self, folder: Path, file: RemoteFile) -> bool:
        path = folder / file.name
        if path.is_symlink() or not path.is_file() or path.stat().st_size != file.size:
            return False
        return _is(path, file)

    def _bring(
        self, reference: HubReference, file: RemoteFile, folder: Path, told: Callable[[int], None] | None
    ) -> int:
        """One file, from the pool or over the network; the bytes that came over the network."""
        target = disk.below(folder, file.name)
        if self._pool is not None and file.sha256 and self._pool.take(file.sha256, target, size=file.size):
            return 0
        part = target.with_name(f"{target.name}.{file.identity[-16:]}{disk.PART}")
        came = 0

        def once() -> None:
            nonlocal came
            came += self._go_on(reference, file, part, told)
            if not _is(part, file):
                part.unlink()
                raise Refusal(State.CHANGED, "what came has another digest than was listed",
                              where=f"{reference}: {file.name}", expected=file.identity)  # fmt: skip

        self._again(once)
        os.replace(part, target)
        if self._pool is not None and file.sha256:
            self._pool.keep(file.sha256, target)
        return came

    def _go_on(self, reference: HubReference, file: RemoteFile, part: Path, told: Callable[[int], None] | None) -> int:
        """Fetch what a part still lacks."""
        where = f"{reference}: {file.name}"
        have = part.stat().st_size if part.exists() and not part.is_symlink() else 0
        if have > file.size or part.is_symlink():
            part.unlink()
            have = 0
        if have == file.size:
            if not file.size:
                part.touch()
            return 0
        with self._wire.open(_path(reference, file), where=where, first=have) as answer:
            start, came = starts_at(answer, have, file.size, where=where), 0
            with part.open("r+b" if part.exists() else "wb") as out:
                out.truncate(start)
                out.seek(start)
                for chunk in self._wire.body(answer, where=where, most=file.size - start):
                    out.write(chunk)
                    came += len(chunk)
                    if told is not None:
                        told(start + came)
                out.flush()
                os.fsync(out.fileno())
        if start + came != file.size:
            raise _cut(where, start + came, file.size)
        return came

    def _again(self, once: Callable[[], T]) -> T:
        """Try a few times when the hub is away or sends something else than it announced."""
        for turn in range(max(self._tries.values())):
            try:
                return once()
            except Refusal as error:
                wait = error.retry_after if error.retry_after is not None else WAIT * 2**turn
                if turn + 1 >= self._tries.get(error.state, 1) or wait > PATIENCE:
                    raise
                self._sleep(wait)
        raise AssertionError("unreachable")


def _listed(raw: bytes, reference: HubReference) -> list[RemoteFile]:
    """The files of a listing.

    Raises:
        Refusal: ``unavailable``, when it is no listing of this commit.
    """
    from fingerprint.checkpoint.limits import DEFAULT_LIMITS
    from fingerprint.checkpoint.strict_json import parse_object
    from fingerprint.errors import CheckpointError

    where = f"listing of {reference}"
    try:
        document = parse_object(raw, where=where, limits=DEFAULT_LIMITS, max_bytes=LISTING_BYTES)
        if text(document, "sha", where=where) != reference.revision:
            raise Refusal(State.CHANGED, "the hub answers for another commit", where=where, got=document["sha"][:60])
        siblings = document.get("siblings")
        if not isinstance(siblings, list) or not all(isinstance(one, dict) for one in siblings):
            raise Refusal(State.UNAVAILABLE, "no list of files", where=where)
        return [_file(one, where) for one in siblings]
    except (CheckpointError, BadInput) as error:
        raise Refusal(State.UNAVAILABLE, error.what, where=error.where, got=error.got) from None


def _file(entry: dict[str, Any], where: str) -> RemoteFile:
    name = text(entry, "rfilename", where=where)
    lfs = entry.get("lfs")
    if isinstance(lfs, dict):
        digest = text(lfs, "sha256", where=where)
        return RemoteFile(name, integer(lfs, "size", where=where), sha256=_hex(digest, 64, where))
    blob = text(entry, "blobId", where=where)
    return RemoteFile(name, integer(entry, "size", where=where), blob=_hex(blob, 40, where))


def _hex(digest: str, digits: int, where: str) -> str:
    if len(digest) != digits or any(letter not in "0123456789abcdef" for letter in digest):
        raise BadInput("not a digest", where=where, got=digest[:80], expected=f"{digits} hex digits")
    return digest


def _is(path: Path, file: RemoteFile) -> bool:
    """Whether a file's content is what the listing says."""
    return disk.digest_of(path) == file.sha256 if file.sha256 else disk.git_blob_of(path) == file.blob


def _path(reference: HubReference, file: RemoteFile) -> str:
    return f"{reference.repo}/resolve/{reference.revision}/{quote(file.name)}"


def _cut(where: str, got: int, expected: int) -> Refusal:
    return Refusal(State.UNAVAILABLE, "the answer ended early", where=where, got=got, expected=f"{expected} bytes")


def _remove_others(folder: Path, names: set[str]) -> None:
    for path in folder.rglob("*"):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in names:
            path.unlink()


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Errors of the system as states."""
    try:
        yield
    except OSError as error:
        state = State.DISK_FULL if disk.full(error) else State.UNAVAILABLE
        got = error.strerror or str(error)
        raise Refusal(state, "cannot write the checkpoint", where=str(folder), got=got) from None
