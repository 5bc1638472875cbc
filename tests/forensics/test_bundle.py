from __future__ import annotations

import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics import bundle
from forensics.errors import EvidenceError

SCHEMA = "test/v1"
NAMES = st.from_regex(r"[a-z][a-z0-9.]{0,8}(/[a-z][a-z0-9.]{0,8})?", fullmatch=True)


def unpack(data: bytes) -> dict[str, bytes]:
    return bundle.unpack(data, schema=SCHEMA, where="e.zip")


def zipped(members: dict[str, bytes] | list[tuple[str, bytes]], **options) -> bytes:
    """A zip as other programs make it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=options.get("compression", 0))
    return out.getvalue()


@given(members=st.dictionaries(NAMES, st.binary(max_size=50), max_size=6).filter(lambda m: bundle.MANIFEST not in m))
def test_what_is_packed_comes_out_and_order_does_not_matter(members):
    data = bundle.pack(SCHEMA, members)
    assert unpack(data) == members
    assert bundle.pack(SCHEMA, dict(reversed(members.items()))) == data


@given(data=st.binary(max_size=300))
def test_random_bytes_are_refused(data):
    with pytest.raises(EvidenceError):
        unpack(data)


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_every_flipped_bit_is_noticed(at, bit):
    data = bytearray(bundle.pack(SCHEMA, {"a": b"hello", "b/c": b"world" * 5}))
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(EvidenceError):
        unpack(bytes(data))


@given(cut=st.integers(0, 10**6))
def test_every_truncation_is_noticed(cut):
    data = bundle.pack(SCHEMA, {"a": b"hello"})
    with pytest.raises(EvidenceError):
        unpack(data[: cut % len(data)])


def manifest(members: dict[str, bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(bundle.pack(SCHEMA, members))) as archive:
        return archive.read(bundle.MANIFEST)


GOOD = {"a": b"hello"}
HOSTILE = {
    "bytes in front": lambda d: b"#!/bin/sh\n" + d,
    "bytes behind": lambda d: d + b"\0",
    "compressed": lambda _: zipped({"a": b"hello" * 99, bundle.MANIFEST: b"{}"}, compression=zipfile.ZIP_DEFLATED),
    "bomb": lambda _: zipped({"a": bytes(10 << 20)}, compression=zipfile.ZIP_DEFLATED),
    "traversal": lambda _: zipped({"../../etc/passwd": b"x"}),
    "absolute": lambda _: zipped({"/etc/passwd": b"x"}),
    "backslash": lambda _: zipped({"a\\b": b"x"}),
    "escape sequence": lambda _: zipped({"a\x1b[2J": b"x"}),
    "too many": lambda _: zipped({f"m{i}": b"" for i in range(65)}),
    "no manifest": lambda _: zipped(GOOD),
    "another date": lambda _: zipped(GOOD | {bundle.MANIFEST: manifest(GOOD)}),
    "manifest of another": lambda _: bundle._write(GOOD | {bundle.MANIFEST: manifest({"a": b"other"})}),
    "member not listed": lambda _: bundle._write(GOOD | {"b": b"", bundle.MANIFEST: manifest(GOOD)}),
    "member listed but absent": lambda _: bundle._write({bundle.MANIFEST: manifest(GOOD)}),
    "another schema": lambda _: bundle.pack("other/v1", GOOD),
    "manifest with spaces": lambda _: bundle._write(
        GOOD | {bundle.MANIFEST: json.dumps(json.loads(manifest(GOOD)), indent=1).encode()}
    ),
    "manifest is a list": lambda _: bundle._write(GOOD | {bundle.MANIFEST: b"[]"}),
    "manifest is deep": lambda _: bundle._write(GOOD | {bundle.MANIFEST: b"[" * 100_000}),
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bundles_are_refused_by_name(name):
    with pytest.raises(EvidenceError, match=r"e\.zip"):
        unpack(HOSTILE[name](bundle.pack(SCHEMA, GOOD)))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_occurs_twice_is_refused():
    with pytest.raises(EvidenceError, match="twice"):
        unpack(zipped([("a", b"shown"), ("a", b"used")]))


def test_a_bundle_over_the_limit_is_refused_unread(monkeypatch):
    monkeypatch.setattr(bundle, "BUNDLE_LIMIT", 10)
    with pytest.raises(EvidenceError, match="too large"):
        unpack(bundle.pack(SCHEMA, GOOD))


def test_overlapping_members_are_refused_before_they_are_read():
    """Two directory entries over the same bytes: the classic bomb without nesting."""
    data = bytearray(zipped({"a": b"x" * 400, "b": b""}))
    start = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", start + 4)
    data[second + 20 : second + 28] = data[start + 20 : start + 28]
    data[second + 42 : second + 46] = data[start + 42 : start + 46]
    with pytest.raises(EvidenceError, match="overlap"):
        unpack(bytes(data))
