"""Making a backup while the service runs.

SQLite's own online copy gives one consistent state, whatever is written meanwhile. Blobs come after it: they are
written before the rows that name them and never changed, so every row in the copy finds its blob.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..errors import StoreCorrupt, StoreUnavailable, Unavailable, UsageError
from ..keys import HINTS, SERVICE_PUBLIC
from ..place import Clock, now
from ..store.migrate import HEAD
from . import contents
from .contents import DATABASE, MANIFEST, PUBLIC, SEALED, Manifest

if TYPE_CHECKING:
    from ..settings import Settings


@dataclass(frozen=True)
class Made:
    """What a backup holds.

    Args:
        blobs: How many blobs.
        size: Bytes of the file.
        keys: Whether the sealed private keys are in it.
    """

    blobs: int
    size: int
    keys: bool


def make(
    settings: Settings,
    target: Path,
    *,
    keys_password: str | None = None,
    clock: Clock = now,
    entropy: Callable[[int], bytes] = secrets.token_bytes,
) -> Made:
    """Write a backup of a home.

    Args:
        settings: Whose.
        target: The file; it appears when it is whole.
        keys_password: Seals the private keys into it; without one they are left out.
        clock: The time.
        entropy: ``entropy(n)`` is n random bytes.

    Raises:
        UsageError: The database is not SQLite in a file, or the blobs are elsewhere: these have tools of their own.
        StoreCorrupt: The database or a blob is damaged; a backup of it would be worth nothing.
        Unavailable: It cannot be written.
    """
    database, blobs = _places(settings)
    temporary = target.with_name(f".{target.name[:100]}-{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            os.chmod(temporary, 0o600)
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
                held = _fill(archive, settings, database, blobs, keys_password, clock, entropy)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise Unavailable("cannot write a backup", where=str(target), got=error.strerror or str(error)) from None
    finally:
        with suppress(OSError):
            temporary.unlink()
    return Made(held, target.stat().st_size, keys_password is not None)


def _places(settings: Settings) -> tuple[Path, Path]:
    """Database file and blob folder."""
    url = settings.database_url
    if not url.startswith("sqlite:///"):
        raise UsageError(
            "backups are made of SQLite alone",
            where="setting database",
            got=url.partition(":")[0],
            remedy="Use pg_dump for PostgreSQL, and copy the blobs after it: see the operator guide.",
        )
    if settings.blobs and not settings.blobs.startswith("file://"):
        raise UsageError(
            "backups are made of blobs in a folder alone",
            where="setting blobs",
            got=settings.blobs.partition(":")[0],
            remedy="Use the object store's own versions or copies.",
        )
    database = Path(url.removeprefix("sqlite:///"))
    if not database.is_file():
        raise StoreUnavailable("there is no database to back up", where=str(database))
    return database, Path(settings.blobs_url.removeprefix("file://"))


def _fill(
    archive: tarfile.TarFile,
    settings: Settings,
    database: Path,
    blobs: Path,
    password: str | None,
    clock: Clock,
    entropy: Callable[[int], bytes],
) -> int:
    """Put everything in; how many blobs there were."""
    digests: dict[str, str] = {}
    with TemporaryDirectory(prefix=".backup-", dir=database.parent) as folder:
        copy = Path(folder) / DATABASE
        _copy(database, copy)
        digests[DATABASE] = _add_file(archive, copy, DATABASE)
    held = 0
    for path, name in _blobs(blobs):
        found = _add_file(archive, path, name)
        if found != path.name:
            raise StoreCorrupt("a blob is damaged", where=str(path), got=found, expected=path.name)
        held += 1
    folder_of_keys = settings.home / "keys"
    if (folder_of_keys / SERVICE_PUBLIC).is_file():
        digests[PUBLIC] = _add(archive, PUBLIC, (folder_of_keys / SERVICE_PUBLIC).read_bytes())
    if password is not None:
        files = {p.name: p.read_bytes() for p in sorted(folder_of_keys.glob("*.pem"))}
        files |= {p.name: p.read_bytes() for p in [folder_of_keys / HINTS] if p.is_file()}
        digests[SEALED] = _add(archive, SEALED, contents.seal_keys(files, password, entropy=entropy(28)))
    _add(archive, MANIFEST, Manifest(HEAD, digests, held, clock().isoformat(timespec="seconds")).to_bytes())
    return held


def _copy(database: Path, target: Path) -> None:
    """One consistent state of a database that is in use."""
    try:
        with (
            closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)  # in one read transaction, which in WAL mode keeps no writer waiting
            problem = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
            version = copy.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    except sqlite3.Error as error:
        raise StoreCorrupt("the database cannot be copied", where=str(database), got=str(error)) from None
    if problem != "ok":
        raise StoreCorrupt("the database is damaged", where=str(database), got=problem[:200])
    if version != HEAD:
        raise StoreUnavailable("database has another schema", got=version, expected=HEAD, remedy="forensics migrate")


def _blobs(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.glob("??/*")):
        name = f"blobs/{path.parent.name}/{path.name}"
        if contents.BLOB.fullmatch(name):
            yield path, name


def _add_file(archive: tarfile.TarFile, path: Path, name: str) -> str:
    """Add a file as it is read; its SHA-256."""
    with path.open("rb") as file:
        member = tarfile.TarInfo(name)
        member.size, member.mode = os.fstat(file.fileno()).st_size, 0o600
        hashed = _Hashed(file)
        archive.addfile(member, hashed)  # type: ignore[arg-type]
        return hashed.sha256.hexdigest()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> str:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))
    return contents.digest(data)


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        return data
