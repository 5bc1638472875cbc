"""A zip that is a value: one set of members has one byte string, and every other byte string is refused.

Evidence is handed to people who argue about it, so two parsers must never see two different bundles. Members are
stored (not compressed) under sorted names with a fixed date, and reading one means: check sizes from the directory,
read, write it again, and demand the same bytes. That refuses bombs, duplicates, overlaps, hidden prefixes and
trailers, traversal and comments in one stroke. Format: PKWARE APPNOTE 6.3.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from typing import Any

from .errors import EvidenceError

BUNDLE_LIMIT = 256 << 20  # bytes; two fingerprints and some parents, each below one MiB, leave much room
MEMBER_LIMIT = 64
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}(/[a-z0-9][a-z0-9_.-]{0,63})?", re.ASCII)
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold
_MODE = 0o100644 << 16
_UNIX = 3


def canonical(document: Any) -> bytes:
    """JSON as bytes: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def pack(schema: str, members: Mapping[str, bytes]) -> bytes:
    """``members`` and a manifest of their SHA-256 digests as one deterministic zip."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(members.items())}
    manifest = canonical({"schema": schema, "members": digests})
    return _write({**members, MANIFEST: manifest})


def unpack(data: bytes, *, schema: str, where: str) -> dict[str, bytes]:
    """The members of a bundle, each checked against the manifest; the manifest itself is not among them.

    Raises:
        EvidenceError: Anything but the exact bytes that ``pack`` makes.
    """
    if len(data) > BUNDLE_LIMIT:
        raise EvidenceError("bundle is too large", where=where, got=len(data), expected=f"at most {BUNDLE_LIMIT} bytes")
    members = _read(data, where)
    if _write(members) != data:
        raise EvidenceError(
            "bundle is not in its one canonical form",
            where=where,
            got="other bytes around, between or inside the members",
            expected="the bytes `--evidence` wrote",
        )
    _check_manifest(members, schema, where)
    return {name: content for name, content in members.items() if name != MANIFEST}


def parse(data: bytes, *, where: str) -> Any:
    """JSON of a member.

    Raises:
        EvidenceError: It is not JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError("not JSON", where=where, got=str(error)[:120]) from None


def _write(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, date_time=_DATE)
            info.create_system, info.external_attr = _UNIX, _MODE
            archive.writestr(info, members[name])
    return out.getvalue()


def _read(data: bytes, where: str) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_directory(archive.infolist(), len(data), where)
            for info in archive.infolist():
                members[info.filename] = archive.read(info)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise EvidenceError("not an evidence bundle", where=where, got=str(error)[:120]) from None
    except RuntimeError as error:  # zipfile's way to say that a member is encrypted
        raise EvidenceError("member cannot be read", where=where, got=str(error)[:120]) from None
    return members


def _check_directory(entries: list[zipfile.ZipInfo], size: int, where: str) -> None:
    """Everything that can be refused before a byte of a member is read."""
    if len(entries) > MEMBER_LIMIT:
        raise EvidenceError("too many members", where=where, got=len(entries), expected=f"at most {MEMBER_LIMIT}")
    seen: set[str] = set()
    total = 0
    for entry in entries:
        name = entry.filename
        if not _NAME.fullmatch(name):
            raise EvidenceError("member has a forbidden name", where=where, got=ascii(name[:80]))
        if name in seen:
            raise EvidenceError("member occurs twice", where=f"{where}:{name}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise EvidenceError("member is compressed", where=f"{where}:{name}", expected="stored")
        seen.add(name)
        total += entry.file_size
    if total > size:
        raise EvidenceError("members overlap", where=where, got=f"{total} bytes", expected=f"at most {size}")


def _check_manifest(members: Mapping[str, bytes], schema: str, where: str) -> None:
    raw = members.get(MANIFEST, b"")
    if not raw or len(raw) > MANIFEST_LIMIT:
        raise EvidenceError("manifest is absent or too large", where=f"{where}:{MANIFEST}", got=f"{len(raw)} bytes")
    manifest = parse(raw, where=f"{where}:{MANIFEST}")
    if not isinstance(manifest, dict) or manifest.get("schema") != schema:
        got = manifest.get("schema", "none") if isinstance(manifest, dict) else type(manifest).__name__
        raise EvidenceError("bundle has another schema", where=f"{where}:{MANIFEST}", got=ascii(got), expected=schema)
    digests = manifest.get("members")
    actual = {n: hashlib.sha256(data).hexdigest() for n, data in members.items() if n != MANIFEST}
    if not isinstance(digests, dict) or canonical(manifest) != raw:
        raise EvidenceError("manifest is not in its canonical form", where=f"{where}:{MANIFEST}")
    if set(digests) != set(actual):
        odd = sorted(set(digests) ^ set(actual))[0]
        raise EvidenceError("manifest and members differ", where=f"{where}:{odd}"[:200])
    for name, digest in sorted(actual.items()):
        if digests[name] != digest:
            raise EvidenceError(
                "member was changed", where=f"{where}:{name}", got=digest, expected=ascii(digests[name])[:80]
            )
