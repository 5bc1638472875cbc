from __future__ import annotations

import multiprocessing
import stat

import pytest

from attest.errors import InvalidKey
from forensics.errors import BadInput, StoreUnavailable, UsageError
from forensics.keys import Keys

FORK = multiprocessing.get_context("fork")


def test_a_key_is_made_once_and_kept_for_its_owner_alone(tmp_path):
    keys = Keys(tmp_path / "keys")
    first = keys.service().verifier
    assert keys.service().verifier == first
    assert stat.S_IMODE((tmp_path / "keys" / "service.pem").stat().st_mode) == 0o600
    assert keys.bundle().verifier == keys.bundle().verifier


def test_a_password_encrypts_the_file_and_another_one_does_not_open_it(tmp_path):
    keys = Keys(tmp_path, password=b"correct horse")
    key = keys.service().verifier
    assert b"ENCRYPTED" in (tmp_path / "service.pem").read_bytes()
    assert Keys(tmp_path, password=b"correct horse").service().verifier == key
    for other in (b"battery staple", None):
        with pytest.raises(InvalidKey):
            Keys(tmp_path, password=other).service()
    assert b"ENCRYPTED" in keys._get("bundle.pem", lambda: keys.bundle().pem(password=b"correct horse"))


def test_a_short_password_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(InvalidKey):
        Keys(tmp_path, password=b"short").service()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_others_may_read_is_refused(tmp_path):
    keys = Keys(tmp_path)
    keys.service()
    (tmp_path / "service.pem").chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        keys.service()


def test_the_logs_name_is_fixed_with_its_key(tmp_path):
    keys = Keys(tmp_path)
    assert keys.known_public() is None
    named = keys.service_public(origin="example.org/log")
    assert keys.service_public() == keys.known_public() == named
    with pytest.raises(UsageError):
        keys.service_public(origin="example.org/other")


def test_halves_of_two_keys_are_refused(tmp_path):
    Keys(tmp_path / "a").service_public()
    Keys(tmp_path / "b").service_public()
    (tmp_path / "a" / "service.vkey").write_bytes((tmp_path / "b" / "service.vkey").read_bytes())
    with pytest.raises(BadInput):
        Keys(tmp_path / "a").service_public()


def _public(folder, gate, found):
    gate.wait()
    found.put(Keys(folder).service().verifier.public_bytes)


def test_processes_that_start_at_once_agree_on_one_key(tmp_path):
    gate, found = FORK.Event(), FORK.Queue()
    started = [FORK.Process(target=_public, args=(tmp_path / "keys", gate, found)) for _ in range(4)]
    for process in started:
        process.start()
    gate.set()
    assert len({found.get(timeout=60) for _ in started}) == 1
    for process in started:
        process.join(60)
    assert [file.name for file in (tmp_path / "keys").iterdir()] == ["service.pem"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        Keys(tmp_path / "file" / "keys").service()


def test_no_key_shows_itself(tmp_path):
    keys = Keys(tmp_path, password=b"correct horse")
    text = repr([keys, keys.service(), keys.bundle(), vars(keys.service())])
    assert "PRIVATE" not in text


def test_a_damaged_secret_for_hints_is_refused(tmp_path):
    keys = Keys(tmp_path)
    keys.hints()
    (tmp_path / "hints.key").write_bytes(b"")
    with pytest.raises(BadInput, match="Delete it"):
        keys.known_hints()
