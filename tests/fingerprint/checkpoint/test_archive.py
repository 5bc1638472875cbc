"""A zip of a checkpoint folder opens as the folder does, and leaves nothing behind."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import pytest
from safetensors.torch import save

from fingerprint.checkpoint import open_checkpoint
from fingerprint.errors import CheckpointError
from tests.fingerprint.checkpoint.corpus import tensors, zipped
from tests.fingerprint.checkpoint.test_safetensors import equal


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("prefix", ["", "some/model/"])
def test_zip_opens_as_its_folder(
    compression: int, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    members = {
        f"{prefix}model.safetensors": save(tensors()),
        f"{prefix}config.json": b'{"hidden_size": 4}',
        f"{prefix}vocab.txt": b"a\nb\n",
        f"{prefix}1_Pooling/config.json": b"{}",
    }
    (tmp_path / "model.zip").write_bytes(zipped(members, compression=compression))
    with open_checkpoint(tmp_path / "model.zip") as checkpoint:
        assert all(equal(checkpoint.tensor(name), x) for name, x in tensors().items())
        assert checkpoint.config == {"hidden_size": 4}
        assert checkpoint.token_strings() == ("a", "b")
        assert [file.name for file in checkpoint.files] == ["model.safetensors"]
    assert list(scratch.iterdir()) == []


def test_refused_contents_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    (tmp_path / "model.zip").write_bytes(zipped({"model.safetensors": b"lies"}))
    with pytest.raises(CheckpointError):
        open_checkpoint(tmp_path / "model.zip")
    assert list(scratch.iterdir()) == []
