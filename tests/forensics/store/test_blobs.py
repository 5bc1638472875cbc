from __future__ import annotations

import errno

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from forensics.errors import StoreCorrupt, StoreUnavailable
from forensics.store.blobs import Blobs, digest_of


@given(data=st.binary(max_size=200))
def test_what_goes_in_comes_out(data):
    blobs = Blobs("memory://round-trip")
    assert blobs.get(blobs.put(data)) == data


def test_writing_twice_is_harmless_and_leaves_no_partial_file(tmp_path):
    blobs = Blobs(tmp_path.as_uri())
    assert blobs.put(b"x") == blobs.put(b"x") == digest_of(b"x")
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [digest_of(b"x").removeprefix("sha256:")]


def test_a_damaged_blob_is_named_and_healed_by_writing_it_again(tmp_path):
    blobs = Blobs(tmp_path.as_uri())
    digest = blobs.put(b"original")
    path = next(p for p in tmp_path.rglob("*") if p.is_file())
    path.write_bytes(b"tampered")
    with pytest.raises(StoreCorrupt, match=digest):
        blobs.get(digest)
    blobs.put(b"original")
    assert blobs.get(digest) == b"original"


def test_a_missing_blob_is_unavailable(tmp_path):
    with pytest.raises(StoreUnavailable, match="missing"):
        Blobs(tmp_path.as_uri()).get(digest_of(b"never"))


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:../../etc/passwd", "md5:" + "0" * 64, "sha256:" + "G" * 64])
def test_a_digest_that_is_none_never_becomes_a_path(tmp_path, digest):
    with pytest.raises(StoreCorrupt, match="digest"):
        Blobs(tmp_path.as_uri()).get(digest)


class FullDisk(MemoryFileSystem):
    """Takes the first bytes of a file and then is full."""

    cachable = False

    def open(self, path, mode="rb", **kwargs):
        file = super().open(path, mode, **kwargs)
        if "w" in mode:
            real = file.write

            def write(data):
                real(data[:3])
                raise OSError(errno.ENOSPC, "No space left on device")

            file.write = write
        return file


def test_a_full_disk_leaves_nothing_behind():
    full = FullDisk()
    blobs = Blobs("/full", filesystem=full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        blobs.put(b"a fingerprint")
    with pytest.raises(StoreUnavailable, match="missing"):
        blobs.get(digest_of(b"a fingerprint"))
    assert [p for p in full.find("/full") if "partial" not in p] == []


def test_a_reader_never_sees_half_a_blob(tmp_path, monkeypatch):
    blobs = Blobs(tmp_path.as_uri())
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        blobs.put(b"x" * 1000)
    with pytest.raises(StoreUnavailable):
        blobs.get(digest_of(b"x" * 1000))
