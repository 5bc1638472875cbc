"""``forensics backup`` and ``forensics restore``: a home in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Exit, Unavailable, UsageError
from .console import emit, say
from .home import Home
from .output import check_file

if TYPE_CHECKING:
    from ..settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
CHECKPOINT_LIMIT = 1 << 16


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the backup goes.")],
    keys: Annotated[
        bool, typer.Option("--keys", help="With the private keys, sealed with FORENSICS_BACKUP_PASSWORD.")
    ] = False,
    json: Json = False,
) -> int:
    """Write a consistent backup of this home, also while the service runs.

    Private keys are left out unless asked for, and settings always: they may hold passwords.
    """
    from ..backup import make

    check_file(file, option="FILE")
    settings = Home(context.obj).settings
    made = make(settings, file, keys_password=_password(settings) if keys else None)
    if json:
        emit({"file": str(file), "bytes": made.size, "blobs": made.blobs, "keys": made.keys})
    else:
        print(f"{made.size} bytes, {made.blobs} blobs" + (", keys sealed" if made.keys else ""))
    if not made.keys:
        say("note: without the private keys; keep a copy of the folder keys apart from this file")
    return Exit.CLEAN


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    keys: Annotated[
        bool, typer.Option("--keys", help="With the private keys, opened with FORENSICS_BACKUP_PASSWORD.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A later checkpoint of the log: a backup from before it is refused.")
    ] = None,
    json: Json = False,
) -> int:
    """Make this home, which must be empty, of a backup.

    Every blob, the database and the whole log are checked before anything is put in place.
    """
    from ..backup import restore as restoring

    settings = Home(context.obj).settings
    later = None if checkpoint is None else _read(checkpoint)
    done = restoring(settings, file, keys_password=_password(settings) if keys else None, checkpoint=later)
    if json:
        emit({"made_at": done.made_at, "blobs": done.blobs, "log_size": done.log_size, "keys": done.keys})
    else:
        print(f"backup of {done.made_at}: {done.blobs} blobs, {done.log_size} log entries, each hashed again")
    if later is None:
        say("note: a log that is set back signs a second history; compare with a checkpoint that somebody kept")
    if not done.keys:
        say(f"note: without private keys; put them into {settings.home / 'keys'} before the service is started")
    return Exit.CLEAN


def _password(settings: Settings) -> str:
    password = settings.backup_password.get_secret_value()
    if not password:
        raise UsageError("no password to seal the keys with", where="FORENSICS_BACKUP_PASSWORD", remedy="Set it.")
    return password


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(CHECKPOINT_LIMIT)
    except OSError as error:
        raise Unavailable("cannot be read", where=str(path), got=error.strerror or str(error)) from None
