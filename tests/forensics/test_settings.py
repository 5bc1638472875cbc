from __future__ import annotations

from pathlib import Path

import pytest

from forensics import settings
from forensics.errors import BadInput, UsageError


def test_flag_beats_environment_beats_file_beats_default(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text('candidates = 7\nbusy_seconds = 3.0\nblobs = "file:///elsewhere"\n')
    monkeypatch.setenv("FORENSICS_HOME", str(tmp_path))
    monkeypatch.setenv("FORENSICS_BUSY_SECONDS", "4")
    found = settings.load(blobs="memory://x", home=None)
    assert (found.candidates, found.busy_seconds, found.blobs_url) == (7, 4.0, "memory://x")
    assert found.database_url == f"sqlite:///{tmp_path}/forensics.db"


def test_the_file_is_looked_for_in_the_home_that_was_asked_for(tmp_path):
    (tmp_path / "config.toml").write_text("candidates = 9\n")
    assert settings.load(home=tmp_path).candidates == 9


def test_everything_lies_under_the_home(tmp_path):
    found = settings.load(home=tmp_path)
    assert found.blobs_url == (tmp_path / "blobs").as_uri()
    assert str(tmp_path) in found.database_url


def test_a_database_password_is_not_shown(tmp_path):
    found = settings.load(home=tmp_path, database="postgres://me:secret@db/x")
    assert found.database_url == "postgresql+psycopg://me:secret@db/x"
    assert "secret" not in repr(found)


def test_default_home_is_the_platforms(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert settings.default_home() == Path("/data/forensics")
    monkeypatch.setenv("XDG_DATA_HOME", "relative is ignored")
    assert settings.default_home() == Path.home() / ".local/share/forensics"


@pytest.mark.parametrize("text", ["candidates = 0", "no_such_setting = 1", "busy_seconds = 'x'"])
def test_a_wrong_setting_is_named(tmp_path, text):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UsageError, match=text.split()[0]):
        settings.load(home=tmp_path)


@pytest.mark.parametrize("content", [b"not toml [", b"\xff\xfe", b"#" * (2 << 20)])
def test_a_damaged_file_is_bad_input(tmp_path, content):
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(BadInput, match=r"config\.toml"):
        settings.load(home=tmp_path)
