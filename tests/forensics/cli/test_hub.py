from __future__ import annotations

import pytest

from fingerprint.errors import CheckpointUnavailable
from forensics.cli import hub
from forensics.errors import UsageError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_commit_of_a_repository_is_a_reference():
    assert hub.parse(f"org/model-7b.v2@{COMMIT}") == hub.HubReference("org/model-7b.v2", COMMIT)


@pytest.mark.parametrize(
    "revision", ["main", "", "v1.0", COMMIT[:39], COMMIT.upper(), COMMIT + "0", f"{COMMIT}\n", "\x1b[2J"]
)
def test_whatever_can_move_is_refused(revision):
    with pytest.raises(UsageError, match="must be a commit"):
        hub.parse(f"org/model@{revision}")


@pytest.mark.parametrize(
    "text", ["model", "org/model", f"a/b/c@{COMMIT}", f"../x@{COMMIT}", f"org/..@{COMMIT}", "/etc/passwd", ""]
)
def test_what_is_no_reference_is_left_to_the_file_system(text):
    assert hub.parse(text) is None


def test_the_hubs_own_cache_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--model" / "snapshots" / COMMIT
    reference = hub.HubReference("org/model", COMMIT)
    with pytest.raises(CheckpointUnavailable, match="hf download org/model --revision"):
        hub.cached(reference)
    folder.mkdir(parents=True)
    assert hub.cached(reference) == folder
