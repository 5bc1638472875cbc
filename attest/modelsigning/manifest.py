"""What a model-signing bundle says of a folder: one digest for each file, or for each fixed-size piece of a file.

OpenSSF Model Signing v1.0, predicate ``https://model_signing/signature/v1.0``. Read more strictly than the reference
tool (``model_signing`` 1.1.1), which takes a name twice (and forgets the first), names outside the folder, and a list
of no files at all. Two things of that tool are taken as they are: pieces are labelled ``sha256-sharded-SIZE``, and
``shard_size`` is written as ``3.0``, because it went through a protobuf double.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from attest import canonical
from attest.canonical import MAX_SAFE_INTEGER, Json
from attest.errors import BundleError, UnsupportedInput

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://model_signing/signature/v1.0"
FILES, SHARDS = "files", "shards"
GIT_PATHS: Final = (".git", ".gitattributes", ".github", ".gitignore")
"""Ignored at the root of a folder by the reference tool, and listed by it in ``ignore_paths``."""
MAX_NAME: Final = 4096
_PIECE: Final = re.compile(r"([^:]+):(0|[1-9][0-9]{0,15}):([1-9][0-9]{0,15})")
_DOUBLE: Final = re.compile(rb'("shard_size"\s*:\s*[0-9]{1,15})\.0(?=\s*[,}])')
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Resource:
    """A file (``end`` is None) or the bytes ``start`` to ``end`` of one, and their SHA-256."""

    path: str
    digest: bytes
    start: int = 0
    end: int | None = None

    @property
    def name(self) -> str:
        """As written in a bundle."""
        return self.path if self.end is None else f"{self.path}:{self.start}:{self.end}"

    @property
    def place(self) -> tuple[tuple[str, ...], int, int]:
        """What the canonical order is by: path component by component, then offset."""
        return PurePosixPath(self.path).parts, self.start, self.end or 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """A folder as it was signed: its resources in the order listed, and what the signer left out."""

    name: str
    resources: tuple[Resource, ...]
    shard_size: int | None = None
    ignore_paths: tuple[str, ...] = ()

    @property
    def root(self) -> bytes:
        """SHA-256 over the digests in the order listed."""
        return sha256(b"".join(resource.digest for resource in self.resources)).digest()

    @property
    def in_order(self) -> bool:
        """Whether the resources are listed in the canonical order."""
        places = [resource.place for resource in self.resources]
        return places == sorted(places)

    def statement(self) -> bytes:
        """The in-toto statement, as the bytes to be signed."""
        serialization: dict[str, Json] = {
            "method": FILES if self.shard_size is None else SHARDS,
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": list(self.ignore_paths),
        }
        if self.shard_size is not None:
            serialization["shard_size"] = self.shard_size
        label = _label(self.shard_size)
        resources: list[Json] = [{"name": r.name, "algorithm": label, "digest": r.digest.hex()} for r in self.resources]
        return canonical.write(
            {
                "_type": STATEMENT,
                "subject": [{"name": self.name, "digest": {"sha256": self.root.hex()}}],
                "predicateType": PREDICATE,
                "predicate": {"resources": resources, "serialization": serialization},
            }
        )


def read_statement(payload: bytes) -> Manifest:
    """Read a statement whose signature was verified.

    Raises:
        BundleError: A name twice, outside the folder or malformed, no resources, symlinks allowed, or a root that is
            not that of the resources.
        UnsupportedInput: Another predicate or digest algorithm.
        MalformedInput: Not strict JSON.
    """
    where = "statement"
    whole = canonical.read_object(_DOUBLE.sub(rb"\1", payload), where=where)
    if _text(whole, "_type") != STATEMENT or _text(whole, "predicateType") != PREDICATE:
        raise UnsupportedInput(
            "not a model-signing statement", where=where, got=whole.get("predicateType"), expected=PREDICATE
        )
    name, root = _subject(whole)
    predicate = _object(whole, "predicate")
    serialization = _object(predicate, "serialization")
    shard_size = _shard_size(serialization)
    resources = tuple(_resource(entry, shard_size) for entry in _list(predicate, "resources"))
    _check_resources(resources)
    manifest = Manifest(name, resources, shard_size, _ignored(serialization))
    if manifest.root.hex() != root:
        raise BundleError(
            "the root is not that of the resources", where=where, got=root, expected=manifest.root.hex(),
            code="root_mismatch",
        )  # fmt: skip
    return manifest


def check_path(path: str, where: str) -> str:
    """A relative path that stays inside the folder, in the one form it can have.

    Raises:
        BundleError: Any other.
    """
    parts = path.split("/")
    plain = path.isprintable() and "\\" not in path and len(path) <= MAX_NAME
    if not plain or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise BundleError(
            "a name that could point outside the folder",
            where=where,
            got=path,
            expected="a relative path without .. and .",
            code="unsafe_name",
        )
    return path


def _check_resources(resources: Sequence[Resource]) -> None:
    if not resources:
        raise BundleError("the bundle signs no file at all", where="resources", code="empty_resources")
    seen: set[str] = set()
    for resource in resources:
        if resource.name in seen:
            raise BundleError("a name is listed twice", where="resources", got=resource.name, code="duplicate_resource")
        seen.add(resource.name)


def _resource(entry: Json, shard_size: int | None) -> Resource:
    if not isinstance(entry, dict):
        raise BundleError("malformed resource", where="resources", got=entry, expected="an object")
    name, digest, algorithm = (_text(entry, key) for key in ("name", "digest", "algorithm"))
    if algorithm not in ("sha256", _label(shard_size)):
        raise UnsupportedInput("digest algorithm not supported", where=name, got=algorithm, expected="sha256")
    if not _HEX.fullmatch(digest):
        raise BundleError("malformed digest", where=name, got=digest, expected="64 lower-case hex digits")
    if shard_size is None:
        return Resource(check_path(name, "resources"), bytes.fromhex(digest))
    piece = _PIECE.fullmatch(name)
    if piece is None:
        raise BundleError("malformed name of a piece", where="resources", got=name, expected="path:start:end")
    path, start, end = check_path(piece[1], "resources"), int(piece[2]), int(piece[3])
    if start % shard_size or not start < end <= start + shard_size:
        raise BundleError("a piece that is none", where="resources", got=name, expected=f"pieces of {shard_size} bytes")
    return Resource(path, bytes.fromhex(digest), start, end)


def _shard_size(serialization: dict[str, Json]) -> int | None:
    if serialization.get("allow_symlinks") is not False:
        raise BundleError("the signer followed symbolic links", where="serialization", code="symlinks_allowed")
    if _text(serialization, "hash_type") != "sha256":
        raise UnsupportedInput("hash not supported", got=serialization["hash_type"], expected="sha256")
    method, size = _text(serialization, "method"), serialization.get("shard_size")
    if method == FILES and size is None:
        return None
    if method != SHARDS or not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MAX_SAFE_INTEGER:
        raise BundleError(
            "malformed serialization", got=f"{method}, shard_size {size}", expected="files, or shards and their size"
        )
    return size


def _ignored(serialization: dict[str, Json]) -> tuple[str, ...]:
    found = serialization.get("ignore_paths", [])
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise BundleError("malformed ignore_paths", where="serialization", expected="a list of text")
    return tuple(str(path) for path in found)


def _subject(statement: dict[str, Json]) -> tuple[str, str]:
    subjects = _list(statement, "subject")
    if len(subjects) != 1 or not isinstance(subjects[0], dict):
        raise BundleError("not one subject", where="subject", got=len(subjects), expected=1)
    return _text(subjects[0], "name"), _text(_object(subjects[0], "digest"), "sha256")


def _label(shard_size: int | None) -> str:
    return "sha256" if shard_size is None else f"sha256-sharded-{shard_size}"


def _text(members: dict[str, Json], key: str) -> str:
    value = members.get(key)
    if not isinstance(value, str) or not value:
        raise BundleError("missing or malformed", where=key, got=type(value).__name__, expected="text")
    return value


def _object(members: dict[str, Json], key: str) -> dict[str, Json]:
    value = members.get(key)
    if not isinstance(value, dict):
        raise BundleError("missing or malformed", where=key, got=type(value).__name__, expected="an object")
    return value


def _list(members: dict[str, Json], key: str) -> list[Json]:
    value = members.get(key)
    if not isinstance(value, list):
        raise BundleError("missing or malformed", where=key, got=type(value).__name__, expected="a list")
    return value
