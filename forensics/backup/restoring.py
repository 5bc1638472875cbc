"""Restoring a backup into an empty home, and proving that what is there is what was saved.

A backup may come from anywhere, so nothing in it is believed: names are matched, not joined; sizes are bounded by what
the disk has; every digest is checked; the database must be sound and of this program's schema; and the log in it is
hashed again, entry by entry, against every checkpoint that was ever signed. Only then does it become the home.

What a backup cannot show is what came after it. A log that is set back goes on from an old state and would sign a
second history; whoever has a later checkpoint (anybody who ever fetched one) gives it, and a backup from before it is
refused.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sqlite3
import tarfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from attest.errors import AttestError
from attest.log.audit import audit
from attest.log.note import NoteKey, open_checkpoint

from ..errors import BadInput, StoreCorrupt, Unavailable, UsageError
from ..log_store import DatabaseLog
from ..store.engine import connect
from ..store.migrate import HEAD
from . import contents
from .contents import DATABASE, MANIFEST, PUBLIC, SEALED, Manifest

if TYPE_CHECKING:
    from ..settings import Settings

CHUNK: Final = 1 << 20
MEMBERS: Final = 10_000_000


@dataclass(frozen=True)
class Restored:
    """What was restored.

    Args:
        blobs: How many blobs.
        log_size: Entries of the log, each hashed again.
        keys: Whether private keys came along.
        made_at: When the backup was made.
    """

    blobs: int
    log_size: int
    keys: bool
    made_at: str


def restore(
    settings: Settings, source: Path, *, keys_password: str | None = None, checkpoint: bytes | None = None
) -> Restored:
    """Make a home of a backup.

    Args:
        settings: Names the home, which must be empty or absent.
        source: The backup.
        keys_password: Opens the private keys in it; without one they are left out.
        checkpoint: A later signed checkpoint of the same log, from whoever kept one.

    Raises:
        UsageError: The home is not empty, or the database or blobs are not in it.
        BadInput: The file is no backup, is damaged, or is older than the checkpoint.
        StoreCorrupt: What is in it contradicts itself.
        Unavailable: It cannot be read, or the home cannot be written.
    """
    home = settings.home
    _check_empty(settings)
    temporary = home.with_name(f".{home.name}-{secrets.token_hex(6)}")
    try:
        temporary.mkdir(parents=True, mode=0o700)
        manifest, sealed = _unpack(source, temporary)
        if keys_password is not None:
            _put_keys(temporary, sealed, keys_password)
        size = _prove(temporary, checkpoint)
        if home.exists():
            home.rmdir()
        os.replace(temporary, home)
    except (OSError, tarfile.TarError) as error:
        where = str(getattr(error, "filename", None) or source)
        raise Unavailable("cannot restore, nothing was changed", where=where, got=str(error)[:200]) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Restored(manifest.blobs, size, keys_password is not None, manifest.made_at)


def _check_empty(settings: Settings) -> None:
    home = settings.home
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise UsageError("the home is not empty", where=str(home), remedy="Restore into another, and move it after.")
    if settings.database.get_secret_value() or settings.blobs:
        where = "setting database" if settings.database.get_secret_value() else "setting blobs"
        raise UsageError("a backup is restored into a home that holds everything", where=where, remedy="Unset it.")


def _unpack(source: Path, target: Path) -> tuple[Manifest, bytes | None]:
    """Write out the members that a backup may have, and check all of them."""
    digests: dict[str, str] = {}
    blobs, raw, sealed = 0, b"", None
    with tarfile.open(source, mode="r|") as archive:
        for count, member in enumerate(archive):
            if count > MEMBERS or not member.isreg():
                raise BadInput("not a backup", where=str(source), got=ascii(member.name[:80]))
            file = archive.extractfile(member)
            assert file is not None  # noqa: S101 - it is a regular member
            name = member.name
            if contents.BLOB.fullmatch(name):
                blobs += 1
                _check(name, _write(file, target / name), name.rpartition("/")[2])
            elif name in (DATABASE, PUBLIC):
                digests[name] = _write(file, target / name)
            elif name == SEALED:
                sealed = _bounded(file, member, contents.KEYS_LIMIT)
                digests[name] = contents.digest(sealed)
            elif name == MANIFEST:
                raw = _bounded(file, member, contents.MANIFEST_LIMIT)
            else:
                raise BadInput("a backup holds no such thing", where=str(source), got=ascii(name[:80]))
    return _agree(Manifest.read(raw), digests, blobs), sealed


def _agree(manifest: Manifest, digests: dict[str, str], blobs: int) -> Manifest:
    """The manifest, when everything in it is there and nothing else.

    Raises:
        BadInput: It is not.
    """
    if manifest.digests != digests or DATABASE not in digests:
        odd = sorted(set(manifest.digests.items()) ^ set(digests.items()))
        raise BadInput("backup and manifest differ", where=odd[0][0] if odd else DATABASE)
    if manifest.blobs != blobs:
        raise BadInput("blobs are missing from the backup", got=blobs, expected=manifest.blobs)
    if manifest.version != HEAD:
        remedy = "Restore it with the program that made it, then migrate."
        raise BadInput("the backup has another schema", got=manifest.version, expected=HEAD, remedy=remedy)
    return manifest


def _prove(home: Path, checkpoint: bytes | None) -> int:
    """The size of the log, after every entry was hashed again.

    Raises:
        StoreCorrupt: The database is not sound.
        LogTampered: The log is not the one that was signed.
        BadInput: The log ends before ``checkpoint``.
    """
    with closing(sqlite3.connect(home / DATABASE)) as database:
        try:
            problem = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            problem = str(error)
    if problem != "ok":
        raise StoreCorrupt("the database in the backup is damaged", got=problem[:200])
    if not (home / PUBLIC).is_file():
        return 0
    key = NoteKey.parse((home / PUBLIC).read_text())
    engine = connect(f"sqlite:///{home / DATABASE}")
    try:
        with DatabaseLog(engine).reading() as reader:
            edge = audit(reader, key)
    finally:
        engine.dispose()
    if checkpoint is not None:
        _check_newer(checkpoint, key, edge.size, edge.root())
    return edge.size


def _check_newer(checkpoint: bytes, key: NoteKey, size: int, root: bytes) -> None:
    try:
        later = open_checkpoint(checkpoint, log=key).checkpoint
    except AttestError as error:
        raise BadInput("not a checkpoint of this log", where="--checkpoint", got=error.what) from None
    if later.size > size or (later.size == size and later.root != root):
        raise BadInput(
            "the log went on after this backup, and would sign a second history",
            got=f"{size} entries",
            expected=f"{later.size} entries",
            remedy="Restore a later backup; or start a new log under a new key and say so in public.",
        )


def _put_keys(home: Path, sealed: bytes | None, password: str) -> None:
    if sealed is None:
        raise BadInput("there are no private keys in this backup", where=SEALED)
    for name, data in contents.open_keys(sealed, password).items():
        if "/" in name or name.startswith("."):
            raise BadInput("not the name of a key", where=SEALED, got=ascii(name[:80]))
        path = home / "keys" / name
        path.parent.mkdir(exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.write_bytes(data)


def _write(file: IO[bytes], path: Path) -> str:
    """Write a member out; its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    hashed = hashlib.sha256()
    with path.open("xb") as out:
        while data := file.read(CHUNK):
            hashed.update(data)
            out.write(data)
        out.flush()
        os.fsync(out.fileno())
    return hashed.hexdigest()


def _bounded(file: IO[bytes], member: tarfile.TarInfo, limit: int) -> bytes:
    if member.size > limit:
        raise BadInput("too large", where=member.name, got=member.size, expected=f"at most {limit} bytes")
    return file.read()


def _check(name: str, got: str, expected: str) -> None:
    if got != expected:
        raise BadInput("damaged", where=name, got=got, expected=expected)
