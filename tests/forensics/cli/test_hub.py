from __future__ import annotations

import json
from pathlib import Path

import pytest

from fingerprint.errors import CheckpointUnavailable
from forensics.cli import hub
from forensics.errors import UsageError
from forensics.settings import load
from tests.forensics import models
from tests.forensics.hub.server import HubServer, served

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.fixture
def repo(tmp_path, monkeypatch) -> Path:
    """A folder `hub` that holds org/model at COMMIT, and the setting that says so."""
    monkeypatch.setenv("FORENSICS_HUB", (tmp_path / "hub").as_uri())
    folder = tmp_path / "hub" / "org" / "model" / COMMIT
    folder.parent.mkdir(parents=True)
    return models.write(models.decoder(1), folder)


def test_a_commit_of_a_repository_is_a_reference():
    assert hub.parse(f"org/model-7b.v2@{COMMIT}") == hub.HubReference("org/model-7b.v2", COMMIT)


@pytest.mark.parametrize(
    "revision", ["main", "", "v1.0", COMMIT[:39], COMMIT.upper(), COMMIT + "0", f"{COMMIT}\n", "\x1b[2J"]
)
def test_whatever_can_move_is_refused(revision):
    with pytest.raises(UsageError, match="must be a commit"):
        hub.parse(f"org/model@{revision}")


@pytest.mark.parametrize(
    "text",
    [
        "model",
        "org/model",
        f"a/b/c@{COMMIT}",
        f"../x@{COMMIT}",
        f"org/..@{COMMIT}",
        "/etc/passwd",
        "",
        f"a/b--c@{COMMIT}",
    ],
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
    assert hub.fetched(reference, load()) == folder


def test_offline_the_hub_is_not_asked(repo, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointUnavailable, match="not asked"):
        hub.fetched(hub.HubReference("org/model", COMMIT), load())


def test_commands_take_a_commit_of_the_hub(repo, json_of, run):
    plain = json_of("scan", repo)
    there = f"org/model@{COMMIT}"
    assert json_of("scan", there)["content_root"] == plain["content_root"]
    assert json_of("compare", there, repo, code=1)["relation"] == "identical"
    assert json_of("known", "add", there)["content_root"] == plain["content_root"]
    assert json_of("identify", there, code=1)["candidate"] == plain["content_root"]


def test_what_was_fetched_is_used_when_the_hub_is_gone(repo, json_of, run, monkeypatch, own_home):
    there = f"org/model@{COMMIT}"
    root = json_of("scan", there)["content_root"]
    monkeypatch.setenv("FORENSICS_HUB", "http://127.0.0.1:9")
    assert json_of("scan", there)["content_root"] == root
    held = own_home / "cache" / "hub" / "models" / "org" / "model" / COMMIT
    next(held.glob("*.safetensors")).write_bytes(b"cut")
    monkeypatch.setattr("time.sleep", lambda _: None)
    code, _, err = run("scan", there)
    assert (code, "cannot be reached" in err) == (4, True)


def test_a_missing_repository_is_exit_4_with_its_state(repo, run):
    code, out, _ = run("scan", f"org/other@{COMMIT}", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (4, "hub_not_found")


def test_a_hostile_repository_is_exit_3_with_its_state(run, monkeypatch):
    hostile = (1 << 62).to_bytes(8, "little") + bytes(2 << 20)
    with served(HubServer(repos={"org/model": {"model.safetensors": hostile}})) as server:
        monkeypatch.setenv("FORENSICS_HUB", server.url)
        code, out, _ = run("scan", f"org/model@{COMMIT}", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (3, "hub_refused")
