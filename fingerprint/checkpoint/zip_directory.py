"""A zip's central directory, checked before anything is unpacked.

Bombs are told from the directory alone: a member's declared size over its packed size, members that share bytes
(D. Fifield, "A better zip bomb", WOOT 2019), more members than anybody needs. Two readers may also see two archives,
where local headers contradict the directory or names repeat; such files are refused (APPNOTE.TXT 6.3.10, sections 4.3
and 4.5.3).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import MappedFile
from fingerprint.checkpoint.strict_json import without_cycles
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

STORED, DEFLATED = 0, 8
_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_COMMENT = 0xFFFF
_FULL = 0xFFFF_FFFF
_ZIP64_FIELD = 1
_CHUNK = 1 << 20
_SYMLINK = 0o120000
_REMEDY = "Make the archive again with an ordinary zip program, or give the unpacked folder."


@dataclass(frozen=True)
class Member:
    """One file of a zip.

    Attributes:
        name: Path inside the archive.
        method: ``STORED`` or ``DEFLATED``.
        packed: Bytes in the archive.
        size: Bytes unpacked, as declared; inflating more is an error.
        crc: CRC-32 of the unpacked bytes.
        header: Where its local header begins.
        begin: Where its packed bytes begin.
    """

    name: str
    method: int
    packed: int
    size: int
    crc: int
    header: int
    begin: int


@without_cycles()
def read_directory(file: MappedFile, limits: Limits) -> tuple[Member, ...]:
    """The members of ``file``, in order of their bytes.

    Raises:
        MalformedCheckpoint: No zip, or one that contradicts itself.
        UnsupportedCheckpoint: Encrypted, split, linked, or compressed by an unusual method.
        CheckpointTooLarge: More members than allowed.
    """
    count, begin, end = _locate(file)
    if count > limits.archive_members or end - begin > limits.archive_members * (_CENTRAL.size + 256):
        raise CheckpointTooLarge(
            "too many members", where=f"{file.name}:directory", got=count, expected=f"<= {limits.archive_members}"
        )
    members = [_member(file, *record) for record in _records(file, count, begin, end)]
    names = {member.name for member in members}
    if len(names) != len(members):
        raise _bad(file, "repeated member name", f"{len(members) - len(names)} repeats", "unique names")
    members.sort(key=lambda member: member.header)
    at = 0
    for member in members:
        if member.header < at:
            raise _bad(file, "members overlap", f"{member.name[:80]} begins at {member.header}", f">= {at}")
        at = member.begin + member.packed
    if at > begin:
        raise _bad(file, "member overlaps the directory", f"ends at {at}", f"<= {begin}")
    return tuple(members)


def inflate(file: MappedFile, member: Member) -> Iterator[bytes]:
    """The unpacked bytes of ``member`` in chunks; never more than it declared.

    Raises:
        MalformedCheckpoint: Damaged data, or another size or CRC than declared.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS) if member.method == DEFLATED else None
    left, crc = member.size, 0
    for at in range(member.begin, member.begin + member.packed, _CHUNK):
        data = file.read(at, min(at + _CHUNK, member.begin + member.packed))
        while data:
            try:
                chunk = data if inflater is None else inflater.decompress(data, _CHUNK)
            except zlib.error as error:
                raise _bad(file, "damaged member", f"{member.name[:80]}: {error}", "a deflate stream") from None
            data = b"" if inflater is None else inflater.unconsumed_tail
            left -= len(chunk)
            if left < 0:
                raise _bad(file, "member larger than declared", member.name[:80], f"{member.size} bytes")
            crc = zlib.crc32(chunk, crc)
            if chunk:
                yield chunk
        file.release(member.begin, at)
    if left or crc != member.crc:
        raise _bad(file, "member differs from its size or CRC", member.name[:80], f"{member.size} bytes")


def _locate(file: MappedFile) -> tuple[int, int, int]:
    """Member count, begin and end of the central directory."""
    tail_at = max(0, file.size - _END.size - _COMMENT)
    tail = file.read(tail_at, file.size)
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or len(tail) - found < _END.size:
        raise _bad(file, "no end of central directory", "none", "a zip file")
    _, disk, first, here, count, size, offset, comment = _END.unpack_from(tail, found)
    end = tail_at + found
    if end + _END.size + comment != file.size:
        raise _bad(file, "bytes after the archive", file.size - end - _END.size - comment, 0)
    locator = file.read(max(0, end - _END64_LOCATOR.size), end)
    if locator.startswith(b"PK\x06\x07") and len(locator) == _END64_LOCATOR.size:
        end = int(_END64_LOCATOR.unpack(locator)[2])
        record = file.read(end, end + _END64.size)
        if len(record) < _END64.size or not record.startswith(b"PK\x06\x06"):
            raise _bad(file, "no zip64 end of central directory", end, "its offset")
        _, _, _, _, disk, first, here, count, size, offset = _END64.unpack(record)
    if disk or first or here != count:
        raise UnsupportedCheckpoint("archive in several parts", where=file.name, got=disk, expected=0, remedy=_REMEDY)
    if offset + size != end:
        raise _bad(file, "directory is not where it should be", f"{offset} + {size}", end)
    return count, offset, end


def _records(file: MappedFile, count: int, at: int, end: int) -> Iterator[tuple[tuple[int, ...], bytes, bytes]]:
    """Fields, name and extra of each central directory record."""
    data = file.read(at, end)
    at = 0
    for _ in range(count):
        if at + _CENTRAL.size > len(data) or data[at : at + 4] != b"PK\x01\x02":
            raise _bad(file, "directory record is damaged", f"byte {at}", "a central directory record")
        fields = _CENTRAL.unpack_from(data, at)[1:]
        name, extra, comment = fields[9:12]
        at += _CENTRAL.size
        if at + name + extra + comment > len(data):
            raise _bad(file, "directory record leaves the directory", at + name + extra + comment, len(data))
        yield fields, data[at : at + name], data[at + name : at + name + extra]
        at += name + extra + comment
    if at != len(data):
        raise _bad(file, "directory has bytes to spare", len(data) - at, 0)


def _member(file: MappedFile, fields: tuple[int, ...], raw_name: bytes, extra: bytes) -> Member:
    """One record, checked against its local header."""
    _, _, flags, method, _, _, crc, packed, size = fields[:9]
    attributes, header = fields[14], fields[15]
    try:
        name = raw_name.decode("utf-8" if flags & 0x800 else "ascii")
    except UnicodeDecodeError:
        raise _bad(file, "member name is no text", raw_name[:80], "ASCII or UTF-8") from None
    wide = _zip64(extra, [value == _FULL for value in (size, packed, header)], file)
    size, packed, header = (w if w is not None else v for w, v in zip(wide, (size, packed, header), strict=True))
    if flags & 1 or method not in (STORED, DEFLATED) or (attributes >> 16) & 0o170000 == _SYMLINK:
        raise UnsupportedCheckpoint(
            "encrypted, linked or unusually packed member",
            where=f"{file.name}:{name[:80]}",
            got=f"method {method}, flags {flags:#x}",
            expected="a stored or deflated file",
            remedy=_REMEDY,
        )
    local = file.read(header, header + _LOCAL.size + len(raw_name))
    if len(local) < _LOCAL.size + len(raw_name) or not local.startswith(b"PK\x03\x04"):
        raise _bad(file, "no local header", f"{name[:80]} at {header}", "PK34")
    _, _, _, local_method, _, _, _, _, _, local_name, local_extra = _LOCAL.unpack_from(local)
    if local_method != method or local_name != len(raw_name) or local[_LOCAL.size :] != raw_name:
        raise _bad(file, "local header contradicts the directory", local[_LOCAL.size :][:80], name[:80])
    begin = header + _LOCAL.size + local_name + local_extra
    if begin + packed > file.size or (method == STORED and packed != size):
        raise _bad(file, "member leaves the file or its size", f"{name[:80]}: {packed} of {size}", file.size - begin)
    return Member(name, method, packed, size, crc, header, begin)


def _zip64(extra: bytes, wanted: list[bool], file: MappedFile) -> list[int | None]:
    """64-bit size, packed size and header offset, for those of them that ``wanted`` says are in the extra field."""
    at, found = 0, b""
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64_FIELD:
            found = extra[at + 4 : at + 4 + length]
        at += 4 + length
    if len(found) < 8 * sum(wanted):
        raise _bad(file, "zip64 field too short", len(found), 8 * sum(wanted))
    values = iter(struct.unpack_from(f"<{sum(wanted)}Q", found))
    return [next(values) if want else None for want in wanted]


def _bad(file: MappedFile, what: str, got: object, expected: object) -> MalformedCheckpoint:
    return MalformedCheckpoint(what, where=f"{file.name}:directory", got=got, expected=expected, remedy=_REMEDY)
