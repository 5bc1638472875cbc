"""A zip of a checkpoint folder, as package registries and competitions pass them around.

Only the files that make a checkpoint are unpacked, from the one folder in the archive that holds weights, into a
temporary folder that goes when the reader closes. Sizes are summed from the directory before the first byte is
inflated, and inflating stops at what was declared.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from fingerprint.checkpoint.derived import DerivedCheckpoint
from fingerprint.checkpoint.folder import NOT_WEIGHTS, SUFFIXES
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.zip_directory import Member, inflate, read_directory
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint

_WEIGHTS = tuple(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
_SMALL = 1 << 20
_HEADROOM = 1 << 30


def open_archive(path: Path, opener: Callable[[Path], Checkpoint], limits: Limits) -> Checkpoint:
    """Unpack the checkpoint inside ``path`` and open it.

    Args:
        path: The zip.
        opener: Opens the unpacked folder.
        limits: Bounds on members, bytes and ratio.

    Raises:
        CheckpointError: A bomb, a path that leaves the archive, no or several folders with weights.
    """
    file = MappedFile(path)
    folder = Path(tempfile.mkdtemp(prefix="checkpoint-"))
    try:
        chosen = _choose(file, read_directory(file, limits))
        _check_sizes(file, chosen, folder, limits)
        for member in chosen:
            with (folder / PurePosixPath(member.name).name).open("xb") as target:
                for chunk in inflate(file, member):
                    target.write(chunk)
        inner = opener(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        file.close()
    return DerivedCheckpoint(
        path,
        (),
        format=inner.format,
        files=inner.files,
        config=inner.config,
        base=inner,
        keep=inner.tensors,
        notes=inner.notes,
        on_close=lambda: shutil.rmtree(folder, ignore_errors=True),
    )


def _choose(file: MappedFile, members: Sequence[Member]) -> list[Member]:
    """The plain files of the one folder that holds weights."""
    for member in members:
        parts = PurePosixPath(member.name).parts
        if member.name.startswith("/") or "\\" in member.name or "\0" in member.name or ".." in parts:
            raise MalformedCheckpoint(
                "path leaves the archive",
                where=f"{file.name}:{member.name[:80]}",
                got=member.name,
                expected="a relative path",
                remedy="No ordinary zip program writes this.",
            )
    plain = [member for member in members if not member.name.endswith("/")]
    homes = {
        PurePosixPath(member.name).parent
        for member in plain
        if member.name.endswith(_WEIGHTS) and PurePosixPath(member.name).name not in NOT_WEIGHTS
    }
    if len(homes) != 1:
        raise MalformedCheckpoint(
            "no single folder with weights",
            where=file.name,
            got=", ".join(sorted(str(home) for home in homes)) or "none",
            expected="one",
            remedy="Unpack it and give the folder that counts.",
        )
    home = homes.pop()
    return [member for member in plain if PurePosixPath(member.name).parent == home]


def _check_sizes(file: MappedFile, chosen: Sequence[Member], folder: Path, limits: Limits) -> None:
    for member in chosen:
        if member.size > _SMALL and member.size > limits.archive_ratio * member.packed:
            raise CheckpointTooLarge(
                "member unpacks to far more than its bytes",
                where=f"{file.name}:{member.name[:80]}",
                got=f"{member.size} bytes from {member.packed}",
                expected=f"at most {limits.archive_ratio} times",
            )
    if len(chosen) > limits.folder_entries:
        raise CheckpointTooLarge("too many files", where=file.name, got=len(chosen), expected=limits.folder_entries)
    total = sum(member.size for member in chosen)
    bound = min(limits.archive_bytes, max(0, shutil.disk_usage(folder).free - _HEADROOM))
    if total > bound:
        raise CheckpointTooLarge(
            "unpacks to too much",
            where=file.name,
            got=f"{total} bytes",
            expected=f"<= {bound}",
            remedy="Unpack it yourself and give the folder.",
        )
