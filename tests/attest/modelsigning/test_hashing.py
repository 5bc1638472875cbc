from __future__ import annotations

import os
import random
from dataclasses import replace
from hashlib import sha256

import pytest

from attest.errors import ContentMismatch, MalformedInput
from attest.modelsigning import hash_folder, hashing, load_hints
from attest.modelsigning.hashing import CHUNK

DRAW = random.Random(1).randrange  # noqa: S311


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "m"
    made.mkdir()
    for name in ("one", "two"):
        (made / name).write_bytes(random.Random(name).randbytes(3 * CHUNK + 17))  # noqa: S311
    return made


def every(_):
    return 0


def touched_back(path, at):
    """Change a byte and set the modification time back, as a careless copy or a thief would."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("shard_size", [None, CHUNK, CHUNK + 1, 10 * CHUNK])
def test_digests_are_those_of_the_bytes(folder, shard_size, workers):
    hashed = hash_folder(folder, shard_size=shard_size, draw=DRAW, workers=workers)
    for resource in hashed.resources:
        body = (folder / resource.path).read_bytes()
        assert resource.digest == sha256(body[resource.start : resource.end]).digest()
    assert [r.name for r in hashed.resources] == sorted(
        (r.name for r in hashed.resources), key=lambda n: n.split(":")[0]
    )
    for path, hint in hashed.hints.items():
        for sample in hint.samples:
            body = (folder / path).read_bytes()[sample.start : sample.start + sample.size]
            assert sample.digest == sha256(body).digest()


@pytest.mark.parametrize("shard_size", [None, CHUNK])
def test_only_what_changed_is_hashed_again(folder, shard_size, monkeypatch):
    first = hash_folder(folder, shard_size=shard_size, draw=every)
    hints = load_hints(first.dump(), shard_size=shard_size)
    assert hints == first.hints
    (folder / "two").write_bytes(b"new")
    (folder / "three").write_bytes(b"newer")
    read = []
    monkeypatch.setattr(hashing, "_read", lambda *a, real=hashing._read: read.append(a[3].name) or real(*a))
    again = hash_folder(folder, shard_size=shard_size, hints=hints, draw=every)
    assert set(read) == {"two", "three"}
    assert again.reused == ("one",)
    assert again.resources == hash_folder(folder, shard_size=shard_size).resources
    assert "two" in hash_folder(folder, shard_size=shard_size, hints=again.hints).reused


def test_a_spot_check_of_everything_finds_a_file_that_was_touched_back(folder):
    hints = hash_folder(folder, draw=every).hints
    touched_back(folder / "one", 2 * CHUNK)
    assert hash_folder(folder, hints=hints).reused == ("one", "two")
    with pytest.raises(ContentMismatch, match="one") as caught:
        hash_folder(folder, hints=hints, spot_check=8, draw=every)
    assert caught.value.code == "spot_check_failed"


def test_a_spot_check_finds_what_its_formula_promises(folder):
    hints = hash_folder(folder, draw=every).hints
    touched_back(folder / "one", 0)
    found, tries, draw = 0, 60, random.Random(3).randrange  # noqa: S311
    for _ in range(tries):
        try:
            assert hash_folder(folder, hints=hints, spot_check=4, draw=draw, workers=1).checked == 4
        except ContentMismatch:
            found += 1
    assert 0.3 < found / tries < 0.7  # 1 of 8 chunks changed, 4 drawn without repeats: one half


def test_a_check_of_more_than_there_is_checks_all_there_is(folder):
    hints = hash_folder(folder, draw=every).hints
    assert hash_folder(folder, hints=hints, spot_check=99, draw=every).checked == 8
    assert hash_folder(folder, hints=hints, spot_check=99).checked == 0


def test_a_spot_check_hashes_whole_what_has_too_few_chunks_to_draw_from(folder):
    hints = hash_folder(folder, draw=lambda n: n - 1).hints  # none is sampled
    again = hash_folder(folder, hints=hints, spot_check=100, draw=every)
    assert (again.reused, again.checked, again.confirmed) == ((), 0, ("one", "two"))
    touched_back(folder / "one", 2 * CHUNK)
    with pytest.raises(ContentMismatch, match="one") as caught:
        hash_folder(folder, hints=hints, spot_check=100, draw=every)
    assert caught.value.code == "spot_check_failed"


@pytest.mark.parametrize("digest", ["", "AAAA", "0" * 62, "0" * 66])
def test_hints_whose_digests_are_none_are_refused(folder, digest):
    dumped = hash_folder(folder, draw=every).dump()
    right = sha256((folder / "one").read_bytes()).hexdigest().encode()
    with pytest.raises(MalformedInput):
        load_hints(dumped.replace(right, digest.encode()), shard_size=None)


def test_a_file_that_changes_while_it_is_read_is_refused(folder, monkeypatch):
    real = hashing._read

    def read(descriptor, into, offset, file):
        done = real(descriptor, into, offset, file)
        with (folder / "one").open("ab") as out:
            out.write(b"x")
        return done

    monkeypatch.setattr(hashing, "_read", read)
    with pytest.raises(ContentMismatch) as caught:
        hash_folder(folder, workers=1)
    assert caught.value.code == "changed_while_read"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema":"other","shard_size":null,"files":{}}',
        b'{"schema":"attest/hash-hints/v1","shard_size":null,"files":[1]}',
        b'{"schema":"attest/hash-hints/v1","shard_size":null,"files":{"a":{"size":1}}}',
        b'{"schema":"attest/hash-hints/v1","shard_size":null,"files":{"a":{"size":1,"mtime_ns":"x","digests":[],"samples":[]}}}',
    ],
)
def test_hints_that_are_none_are_refused(data):
    with pytest.raises(MalformedInput):
        load_hints(data, shard_size=None)


def test_hints_for_another_shard_size_are_not_used(folder):
    first = hash_folder(folder, shard_size=CHUNK)
    assert load_hints(first.dump(), shard_size=None) == {}
    wrong = {"one": replace(first.hints["one"], digests=())}
    assert hash_folder(folder, hints=wrong).reused == ()


class Copy:
    """A listener that keeps what it is shown."""

    def __init__(self):
        self.data = bytearray()

    def update(self, chunk):
        self.data += chunk


def test_a_listener_gets_the_bytes_of_its_file_in_order_from_the_one_read(tmp_path):
    wanted = bytes(range(256)) * 5000
    (tmp_path / "big").write_bytes(wanted)
    (tmp_path / "other").write_bytes(b"x")
    copy = Copy()
    hashed = hash_folder(tmp_path, listen=lambda path: copy if path == "big" else None)
    assert copy.data == wanted
    assert hashed.resources == hash_folder(tmp_path).resources


def test_a_listener_that_fails_fails_the_hashing(tmp_path):
    class Broken:
        def update(self, chunk):
            raise RuntimeError("no")

    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(RuntimeError):
        hash_folder(tmp_path, listen=lambda path: Broken())
