from __future__ import annotations

import os
import secrets

import pytest

from attest.errors import ContentMismatch
from attest.modelsigning import hash_folder
from fingerprint.checkpoint import open_checkpoint
from fingerprint.scan import scan
from forensics.claims.measure import Hints, measure, read_hints
from tests.forensics import models
from tests.forensics.attesting import flipped, small_model


@pytest.fixture
def folder(tmp_path):
    return models.write(models.decoder(1), tmp_path / "model")


def test_roots_are_those_of_the_fingerprint_and_of_the_files(folder):
    found = measure(folder)
    with open_checkpoint(folder) as checkpoint:
        fingerprint = scan(checkpoint)
    assert found.roots.content == fingerprint.content_root == found.tensors.root
    assert found.roots.nameless == fingerprint.nameless_root
    assert found.hashed.resources == hash_folder(folder).resources


def test_with_and_without_the_fingerprint_a_model_measures_the_same(folder):
    with_one = measure(folder, fingerprint=True)
    assert with_one.roots == measure(folder).roots
    assert with_one.fingerprint is not None


def test_pieces_change_the_root_of_the_files_alone(folder):
    whole, pieces = measure(folder), measure(folder, shard_size=4096)
    assert whole.roots.content == pieces.roots.content
    assert whole.roots.oms != pieces.roots.oms


def test_a_single_file_has_no_root_of_files(folder):
    found = measure(folder / "model.safetensors")
    assert (found.roots.content, found.roots.oms) == (measure(folder).roots.content, None)


def test_hints_save_the_reading_and_give_the_same_roots(folder):
    first = measure(folder, draw=secrets.randbelow)
    hints = read_hints(first.hints(), shard_size=None)
    again = measure(folder, hints=hints, draw=secrets.randbelow)
    assert set(again.hashed.reused) == {"config.json", "model.safetensors"}
    assert again.roots == first.roots
    (folder / "config.json").write_text("{}")
    changed = measure(folder, hints=hints)
    assert changed.hashed.reused == ("model.safetensors",)
    assert changed.roots.content == first.roots.content
    assert changed.roots.oms != first.roots.oms


def test_a_spot_check_finds_what_a_forged_time_hides(tmp_path):
    model = small_model(tmp_path / "model")
    first = measure(model, draw=lambda n: 0)  # every chunk is sampled
    file = model / "model.safetensors"
    before = file.stat()
    file.write_bytes(flipped(file.read_bytes(), before.st_size - 1))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    hints = read_hints(first.hints(), shard_size=None)
    assert measure(model, hints=hints).roots == first.roots
    with pytest.raises(ContentMismatch):
        measure(model, hints=hints, spot_check=9, draw=secrets.randbelow)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"schema":"forensics/measure-hints/v1","files":{},"tensors":{}}', b"\xff"]
)
def test_damaged_hints_are_no_hints(data):
    assert read_hints(data, shard_size=None) == Hints()


def test_hints_with_digests_that_are_none_are_no_hints(folder):
    data = measure(folder).hints()
    assert read_hints(data.replace(b'lm_head.weight":"', b'lm_head.weight":"x'), shard_size=None) == Hints()


def test_progress_reaches_the_end_and_changes_nothing(folder):
    told = []
    found = measure(folder, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == sum(file.stat().st_size for file in folder.iterdir())
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert found.roots == measure(folder).roots
