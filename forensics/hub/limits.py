"""What a repository may ask of us, decided on its listing: sizes, numbers, names and kinds of files.

Files whose kind no detector reads (videos, archives of training runs) are left where they are. Nothing of a repository
is ever imported or run: Python files are taken as text, for what they say about the package.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from .interface import Listing, Refusal, RemoteFile, State
from .reference import HubReference

_SUFFIXES: Final = (
    ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".json", ".jsonl", ".txt", ".model", ".tiktoken", ".jinja",
    ".py", ".md", ".yaml", ".yml", ".toml", ".spm", ".vocab", ".merges", ".onnx_data", ".pkl", ".ckpt", ".pdparams",
)  # fmt: skip
_PLAIN: Final = ("LICENSE", "README", "NOTICE", "merges", "vocab", "tokenizer")
MAX_NAME: Final = 255  # bytes of one part of a path, as file systems have it
MAX_DEPTH: Final = 6


@dataclass(frozen=True)
class FetchLimits:
    """Bounds of one repository.

    Attributes:
        total_bytes: Of all files that are fetched.
        file_bytes: Of one file.
        files: Files listed, whatever their kind.
        suffixes: Kinds of files that are fetched; others are left out.
        keep_free: Bytes of disk that stay free.
    """

    total_bytes: int = 200 << 30
    file_bytes: int = 60 << 30
    files: int = 10_000
    suffixes: tuple[str, ...] = _SUFFIXES
    keep_free: int = 2 << 30

    def wanted(self, name: str) -> bool:
        """Whether a file is of a kind that is fetched."""
        path = PurePosixPath(name)
        return name.lower().endswith(self.suffixes) or (not path.suffix and path.name.split(".")[0] in _PLAIN)

    def choose(self, reference: HubReference, files: list[RemoteFile]) -> Listing:
        """The files to fetch, when the repository keeps within the limits.

        Raises:
            Refusal: ``too_large``, or ``refused`` for a name that is no plain relative path.
        """
        where = str(reference)
        if len(files) > self.files:
            raise Refusal(State.TOO_LARGE, "too many files", where=where, got=len(files), expected=f"<= {self.files}")
        for file in files:
            check_name(file.name, where=where)
        _distinct(files, where)
        chosen = tuple(sorted((f for f in files if self.wanted(f.name)), key=lambda file: file.name))
        for file in chosen:
            if file.size > self.file_bytes:
                raise _too_large("a file is too large", f"{where}: {file.name}"[:200], file.size, self.file_bytes)
        total = sum(file.size for file in chosen)
        if total > self.total_bytes:
            raise _too_large("too many bytes", where, total, self.total_bytes)
        return Listing(reference, chosen)


def check_name(name: str, *, where: str) -> None:
    """Refuse a path that is not plainly below its folder, on any file system.

    Raises:
        Refusal: ``refused``.
    """
    parts = name.split("/")
    plain = (
        0 < len(parts) <= MAX_DEPTH
        and all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= MAX_NAME for part in parts)
        and not any(character in name for character in '\\:\0<>|?*"')
        and name.isprintable()
        and not any(part.endswith((" ", ".")) or part.startswith(" ") for part in parts)
    )
    if not plain:
        raise Refusal(
            State.REFUSED,
            "a file's name is no plain path",
            where=where,
            got=ascii(name)[:120],
            expected="names below it",
        )


def _distinct(files: list[RemoteFile], where: str) -> None:
    """Two names that one file system takes for one (letter case, composed letters) would overwrite each other."""
    seen: dict[str, str] = {}
    for file in files:
        folded = unicodedata.normalize("NFC", file.name).casefold()
        if folded in seen:
            got = f"{seen[folded]!a} and {file.name!a}"[:160]
            raise Refusal(State.REFUSED, "two files have one name", where=where, got=got)
        seen[folded] = file.name


def _too_large(what: str, where: str, got: int, limit: int) -> Refusal:
    return Refusal(State.TOO_LARGE, what, where=where, got=f"{got} bytes", expected=f"<= {limit} bytes")
