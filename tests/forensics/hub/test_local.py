"""A folder as a hub: the same states, limits and digests as from the network."""

from __future__ import annotations

import hashlib
import os
from datetime import timedelta

import pytest

from forensics.errors import Exit, UsageError
from forensics.hub import HubReference, LocalHub, Refusal, open_hub
from forensics.hub.interface import HubMisuse, State
from forensics.hub.limits import FetchLimits, check_name
from forensics.settings import load

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REFERENCE = HubReference("org/model", COMMIT)
FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 100, "tokenizer/vocab.txt": b"a\nb\n"}


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "hub" / "org" / "model" / COMMIT
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def root(repo):
    return repo.parents[2]


def limits(**changes) -> FetchLimits:
    return FetchLimits(**({"keep_free": 0} | changes))


def test_a_checkpoint_is_fetched_whole_with_its_digests(root, tmp_path):
    told = []
    fetched = LocalHub(root, limits()).fetch(REFERENCE, tmp_path / "here", lambda *done: told.append(done))
    assert {
        p.relative_to(fetched.path).as_posix(): p.read_bytes() for p in fetched.path.rglob("*") if p.is_file()
    } == FILES
    assert {f.name: f.sha256 for f in fetched.files} == {n: hashlib.sha256(d).hexdigest() for n, d in FILES.items()}
    total = sum(map(len, FILES.values()))
    assert (fetched.bytes, fetched.downloaded, told[-1]) == (total, total, (total, total))


def test_fetching_again_copies_what_changed_and_removes_what_is_not_there(root, tmp_path):
    hub, here = LocalHub(root, limits()), tmp_path / "here"
    hub.fetch(REFERENCE, here)
    assert hub.fetch(REFERENCE, here).downloaded == 0
    (here / "config.json").write_bytes(b"[]")
    (here / "pytorch_model.bin").write_bytes(b"somebody else's")
    assert hub.fetch(REFERENCE, here).downloaded == 2
    assert sorted(p.name for p in here.iterdir()) == ["config.json", "model.safetensors", "tokenizer"]


def test_absent_is_two_states(root, tmp_path):
    hub = LocalHub(root)
    for reference, state in (
        (HubReference("org/other", COMMIT), State.NOT_FOUND),
        (HubReference("org/model", COMMIT[::-1]), State.REVISION_MISSING),
    ):
        with pytest.raises(Refusal) as caught:
            hub.fetch(reference, tmp_path / "here")
        assert caught.value.state is state
        assert caught.value.exit is Exit.UNAVAILABLE
        assert not caught.value.terminal(timedelta(minutes=14))
        assert caught.value.terminal(timedelta(minutes=15))


@pytest.mark.parametrize("bound", [{"total_bytes": 100}, {"file_bytes": 100}, {"files": 2}])
def test_limits_are_checked_before_anything_is_read(root, tmp_path, bound):
    with pytest.raises(Refusal) as caught:
        LocalHub(root, limits(**bound)).fetch(REFERENCE, tmp_path / "here")
    assert (caught.value.state, caught.value.exit) == (State.TOO_LARGE, Exit.BAD_INPUT)
    assert caught.value.terminal(timedelta())
    assert not (tmp_path / "here").exists()


def test_a_full_disk_is_known_before_and_tried_again(root, tmp_path):
    with pytest.raises(Refusal) as caught:
        LocalHub(root, limits(keep_free=1 << 60)).fetch(REFERENCE, tmp_path / "here")
    assert caught.value.state is State.DISK_FULL
    assert not caught.value.terminal(timedelta(days=9))


def test_links_are_refused_and_other_kinds_of_files_left(root, repo, tmp_path):
    (repo / "video.mp4").write_bytes(b"x" * 5000)
    names = {f.name for f in LocalHub(root, limits()).fetch(REFERENCE, tmp_path / "here").files}
    assert names == set(FILES)
    (repo / "secret.json").symlink_to("/etc/passwd")
    with pytest.raises(Refusal, match="plain file") as caught:
        LocalHub(root, limits()).list(REFERENCE)
    assert caught.value.state is State.REFUSED


def test_a_link_here_is_never_written_through(root, tmp_path):
    here, outside = tmp_path / "here", tmp_path / "outside"
    outside.mkdir()
    here.mkdir()
    (outside / "config.json").write_text("precious")
    (here / "config.json").symlink_to(outside / "config.json")
    (here / "tokenizer").symlink_to(outside)
    with pytest.raises(Refusal, match="link"):
        LocalHub(root, limits()).fetch(REFERENCE, here)
    os.unlink(here / "tokenizer")
    LocalHub(root, limits()).fetch(REFERENCE, here)
    assert (outside / "config.json").read_text() == "precious"
    assert sorted(os.listdir(outside)) == ["config.json"]


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\\b", "C:x", "a\0b", "a\nb", "x" * 300, "a/" * 9 + "b",
     "a ", "a.", "\u202egpj.exe", "\ud800"],
)  # fmt: skip
def test_names_that_leave_or_deceive_are_refused(name):
    with pytest.raises(Refusal) as caught:
        check_name(name, where="org/model")
    assert caught.value.state is State.REFUSED


@pytest.mark.parametrize(
    "name", ["a", "a/b.json", "model-00001-of-00002.safetensors", ".gitattributes", "Lizenz-Übersicht.md"]
)
def test_ordinary_names_pass(name):
    check_name(name, where="org/model")


def test_names_that_are_one_on_some_disks_are_refused(root, repo):
    (repo / "Config.json").write_bytes(b"[]")
    if len(list(repo.glob("[cC]onfig.json"))) == 2:
        with pytest.raises(Refusal, match="two files have one name"):
            LocalHub(root).list(REFERENCE)


def test_the_setting_names_the_hub(root, tmp_path, monkeypatch):
    monkeypatch.setenv("FORENSICS_HUB", root.as_uri())
    hub = open_hub(load())
    assert isinstance(hub, LocalHub)
    assert {f.name for f in hub.list(REFERENCE).files} == set(FILES)
    with pytest.raises(HubMisuse, match="no such folder"):
        open_hub(load(hub=(tmp_path / "nowhere").as_uri()))
    with pytest.raises(UsageError):
        load(hub="ftp://x")
