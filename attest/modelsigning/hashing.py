"""Hashing a checkpoint folder: once, in parallel, and not again what has not changed.

Files whose size and modification time are as they were keep their digest. Those are hints, not evidence: anyone can
set a time back. So a random sixteenth of all 1 MiB chunks is digested on its own while a file is hashed (6 % more
work), and ``spot_check`` of them are drawn and hashed again before a hint is believed: if a fraction f of the chunks
changed, k checks find it with probability 1 - (1 - f)^k. Where a file has too few sampled chunks for that, a spot check
hashes it whole. Hints only ever save the signer work; verification does not use them, and whoever keeps them where
others may write authenticates them first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from attest import canonical
from attest.canonical import Json
from attest.errors import BundleError, ContentMismatch, MalformedInput

from .manifest import GIT_PATHS, Resource, check_path

CHUNK: Final = 1 << 20
AHEAD: Final = 4
"""Chunks in memory for each file: whoever listens may be so far behind before reading waits for it."""
SAMPLED: Final = 16
"""One chunk in so many is digested on its own, for later spot checks."""
MOST_SAMPLED: Final = 64
"""About so many of one file at most: what a spot check detects depends on how many it draws, not from how many."""
ENOUGH: Final = 16
"""A file with fewer sampled chunks, unless they are all of it, is hashed whole by a spot check."""
MAX_FILES: Final = 100_000
Draw = Callable[[int], int]
"""``draw(n)`` is a uniform random number below n, such as ``secrets.randbelow``."""
Listen = Callable[[str], "Listener | None"]
"""Asked once for every file that is read: who else wants its bytes?"""


class Listener(Protocol):
    """Somebody else who digests a file's bytes while they are in memory, so that they are read once."""

    def update(self, chunk: memoryview) -> None:
        """Take the next bytes, in order; called from another thread, and the view is only valid during the call."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A chunk that can be hashed again on its own."""

    start: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Hint:
    """What a file was when it was hashed."""

    size: int
    mtime_ns: int
    digests: tuple[bytes, ...]
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Hashed:
    """A hashed folder: resources in canonical order, hints for next time, and what was not hashed again.

    ``reused`` was not read but for the ``checked`` chunks; ``confirmed`` looked unchanged, and hashed whole it was.
    """

    resources: tuple[Resource, ...]
    hints: Mapping[str, Hint]
    shard_size: int | None
    reused: tuple[str, ...] = ()
    checked: int = 0
    confirmed: tuple[str, ...] = ()

    def dump(self) -> bytes:
        """The hints as JSON, to be kept outside the folder."""
        files: dict[str, Json] = {
            path: {
                "size": hint.size,
                "mtime_ns": str(hint.mtime_ns),
                "digests": [digest.hex() for digest in hint.digests],
                "samples": [[s.start, s.size, s.digest.hex()] for s in hint.samples],
            }
            for path, hint in self.hints.items()
        }
        return canonical.write({"schema": "attest/hash-hints/v1", "shard_size": self.shard_size, "files": files})


def load_hints(data: bytes, *, shard_size: int | None) -> dict[str, Hint]:
    """Read hints; those for another shard size are of no use and are dropped.

    Raises:
        MalformedInput: Not a file that ``dump`` wrote.
    """
    whole: Any = canonical.read_object(data, where="hash hints")
    try:
        if whole["schema"] != "attest/hash-hints/v1":
            raise ValueError(whole["schema"])
        files = whole["files"] if whole["shard_size"] == shard_size else {}
        return {path: _hint(entry) for path, entry in files.items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MalformedInput("not a file of hash hints", where="hash hints", got=repr(error)) from None


def list_files(folder: Path, *, ignore: Iterable[str] = GIT_PATHS) -> dict[str, os.stat_result]:
    """Every regular file under ``folder`` by its relative path, in canonical order; ``ignore`` names what to pass over.

    Raises:
        BundleError: A symbolic link, a socket or a pipe, a name no bundle can hold, or too many files.
    """
    skipped = {path.rstrip("/") for path in ignore}
    found: dict[str, os.stat_result] = {}
    pending = [("", folder)]
    if folder.is_symlink() or not folder.is_dir():
        raise BundleError("not a folder", where=str(folder), code="not_a_folder")
    while pending:
        prefix, inside = pending.pop()
        with os.scandir(inside) as scan:
            entries = list(scan)
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if path in skipped:
                continue
            if entry.is_symlink():
                raise BundleError("symbolic links are refused", where=path, code="symlink")
            if entry.is_dir(follow_symlinks=False):
                pending.append((f"{path}/", Path(entry.path)))
            elif entry.is_file(follow_symlinks=False):
                found[check_path(path, str(folder))] = entry.stat(follow_symlinks=False)
            else:
                raise BundleError("neither file nor folder", where=path, code="special_file")
            if len(found) > MAX_FILES:
                raise BundleError("too many files", where=str(folder), expected=f"at most {MAX_FILES}")
    return dict(sorted(found.items(), key=lambda item: item[0].split("/")))


def hash_folder(
    folder: Path,
    *,
    shard_size: int | None = None,
    ignore: Iterable[str] = GIT_PATHS,
    hints: Mapping[str, Hint] | None = None,
    spot_check: int = 0,
    draw: Draw | None = None,
    workers: int | None = None,
    listen: Listen | None = None,
) -> Hashed:
    """Digest every file of a folder, or every ``shard_size`` bytes of each.

    Args:
        folder: The checkpoint.
        shard_size: Bytes of a piece, or None for whole files.
        ignore: Paths left out, relative to the folder.
        hints: From the last time; files that look unchanged are not read again.
        spot_check: How many random chunks of such files are hashed all the same; files with few chunks to draw from
            are then hashed whole.
        draw: Randomness; without it no chunks are sampled, and none can be checked next time.
        workers: Threads; as many as cores when None.
        listen: Others who want the bytes of whole files; each file's listener runs beside its digest, so on two cores
            both take the time of one.

    Raises:
        BundleError: Something in the folder cannot be signed.
        ContentMismatch: A spot check found a file that changed although it looks unchanged.
    """
    files = list_files(folder, ignore=ignore)
    alike = {
        path: hint
        for path, hint in (hints or {}).items()
        if path in files and _unchanged(hint, files[path], shard_size)
    }
    doubted = {path: hint for path, hint in alike.items() if spot_check and not _can_be_sampled(hint)}
    kept = {path: hint for path, hint in alike.items() if path not in doubted}
    checked = _spot_check(folder, kept, spot_check, draw)
    fresh = {path: list(_pieces(files[path].st_size, shard_size)) for path in files if path not in kept}
    samples = {path: _choose(files[path].st_size, shard_size, draw) for path in fresh}
    tasks = [(path, start, end) for path, pieces in fresh.items() for start, end in pieces]
    made: dict[str, list[tuple[bytes, list[Sample]]]] = {path: [] for path in fresh}

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:

        def run(task: tuple[str, int, int]) -> tuple[bytes, list[Sample]]:
            path, start, end = task
            listener = listen(path) if listen is not None and shard_size is None else None
            return _hash_piece(folder / path, files[path], start, end, samples[path], listener)

        for (path, _, _), result in zip(tasks, pool.map(run, tasks), strict=True):
            made[path].append(result)
    for path, hint in doubted.items():
        if hint.digests != tuple(digest for digest, _ in made[path]):
            raise _differs(path, "another digest of the whole file")
    now = {path: kept[path] if path in kept else _new_hint(files[path], made[path]) for path in files}
    resources = [resource for path, hint in now.items() for resource in _resources(path, hint, shard_size)]
    return Hashed(tuple(resources), now, shard_size, tuple(kept), checked, tuple(doubted))


def _resources(path: str, hint: Hint, shard_size: int | None) -> Iterator[Resource]:
    for (start, end), digest in zip(_pieces(hint.size, shard_size), hint.digests, strict=True):
        yield Resource(path, digest, start, None if shard_size is None else end)


def _pieces(size: int, shard_size: int | None) -> Iterator[tuple[int, int]]:
    """Byte ranges that are digested: the whole file even if empty, or its pieces, none if empty (as in the format)."""
    if shard_size is None:
        yield 0, size
        return
    for start in range(0, size, shard_size):
        yield start, min(start + shard_size, size)


def _choose(size: int, shard_size: int | None, draw: Draw | None) -> frozenset[int]:
    if draw is None:
        return frozenset()
    every = max(SAMPLED, size // CHUNK // MOST_SAMPLED)
    chunks = (begin for start, end in _pieces(size, shard_size) for begin in range(start, end, CHUNK))
    return frozenset(begin for begin in chunks if draw(every) == 0)


def _hash_piece(
    file: Path,
    expected: os.stat_result,
    start: int,
    end: int,
    sampled: frozenset[int],
    listener: Listener | None,
) -> tuple[bytes, list[Sample]]:
    whole = sha256()
    samples: list[Sample] = []

    def beside(begin: int, chunk: memoryview) -> None:
        if listener is not None:
            listener.update(chunk)
        if begin in sampled:
            samples.append(Sample(begin, len(chunk), sha256(chunk).digest()))

    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_same(file, expected, os.fstat(descriptor))
        for chunk in _chunks(descriptor, file, start, end, beside if listener or sampled else None):
            whole.update(chunk)
        _check_same(file, expected, os.fstat(descriptor))
    finally:
        os.close(descriptor)
    return whole.digest(), samples


def _chunks(
    descriptor: int, file: Path, start: int, end: int, beside: Callable[[int, memoryview], None] | None
) -> Iterator[memoryview]:
    """The chunks of a piece; ``beside`` gets each of them too, with its offset, in order, on a thread of its own.

    A few buffers go round, so that neither side waits for the other at every chunk; one is filled again only when
    ``beside`` is done with it. When this ends, so has that.
    """
    buffers = [memoryview(bytearray(min(CHUNK, max(1, end - start)))) for _ in range(AHEAD if beside else 1)]
    busy: list[Future[None] | None] = [None] * len(buffers)
    with ThreadPoolExecutor(1) as second:  # its thread starts with the first chunk
        for number, begin in enumerate(range(start, end, CHUNK)):
            slot = number % len(buffers)
            if (before := busy[slot]) is not None:
                before.result()
            chunk = buffers[slot][: min(CHUNK, end - begin)]
            chunk = chunk[: _read(descriptor, chunk, begin, file)]
            if beside is not None:
                busy[slot] = second.submit(beside, begin, chunk)
            yield chunk
        for future in busy:
            if future is not None:
                future.result()


def _read(descriptor: int, into: memoryview, offset: int, file: Path) -> int:
    done = 0
    while done < len(into):
        count = os.preadv(descriptor, [into[done:]], offset + done)
        if count == 0:
            raise ContentMismatch("file became shorter while it was read", where=str(file), code="changed_while_read")
        done += count
    return done


def _check_same(file: Path, before: os.stat_result, now: os.stat_result) -> None:
    same = (before.st_size, before.st_mtime_ns) == (now.st_size, now.st_mtime_ns)
    if not stat.S_ISREG(now.st_mode) or not same:
        raise ContentMismatch("file changed while it was read", where=str(file), code="changed_while_read")


def _spot_check(folder: Path, kept: Mapping[str, Hint], count: int, draw: Draw | None) -> int:
    """Hash ``count`` random sampled chunks of the files that look unchanged; returns how many there were."""
    left = [(path, sample) for path, hint in kept.items() for sample in hint.samples]
    if draw is None:
        return 0
    for done in range(count):
        if not left:
            return done
        path, sample = left.pop(draw(len(left)))
        descriptor = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            chunk = os.pread(descriptor, sample.size, sample.start)
        finally:
            os.close(descriptor)
        if sha256(chunk).digest() != sample.digest:
            raise _differs(path, f"another digest at byte {sample.start}")
    return count


def _differs(path: str, got: str) -> ContentMismatch:
    return ContentMismatch(
        "file changed although its size and time did not",
        where=path,
        got=got,
        remedy="Sign again without hints.",
        code="spot_check_failed",
    )


def _can_be_sampled(hint: Hint) -> bool:
    """Whether drawing from its sampled chunks says something of the file."""
    return len(hint.samples) >= ENOUGH or sum(sample.size for sample in hint.samples) == hint.size


def _unchanged(hint: Hint, now: os.stat_result, shard_size: int | None) -> bool:
    pieces = 1 if shard_size is None else -(-now.st_size // shard_size)
    return (hint.size, hint.mtime_ns, len(hint.digests)) == (now.st_size, now.st_mtime_ns, pieces)


def _new_hint(now: os.stat_result, made: Sequence[tuple[bytes, list[Sample]]]) -> Hint:
    samples = tuple(sample for _, found in made for sample in found)
    return Hint(now.st_size, now.st_mtime_ns, tuple(digest for digest, _ in made), samples)


def _hint(entry: Any) -> Hint:
    digests = tuple(_digest(value) for value in entry["digests"])
    samples = tuple(Sample(int(start), int(size), _digest(digest)) for start, size, digest in entry["samples"])
    return Hint(int(entry["size"]), int(entry["mtime_ns"]), digests, samples)


def _digest(text: str) -> bytes:
    digest = bytes.fromhex(text)
    if len(digest) != sha256().digest_size:
        raise ValueError(text)
    return digest
