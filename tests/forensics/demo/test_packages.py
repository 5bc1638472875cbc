"""What a registry serves is untrusted until its digest, its names and its sizes have been looked at."""

from __future__ import annotations

import hashlib
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from forensics.demo import packages
from forensics.demo.errors import PackageDamaged, PackageUnavailable
from forensics.errors import exit_code


def archive(path: Path, members: dict[str, bytes], *, link: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
        if link:
            entry = zipfile.ZipInfo(link)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(entry, "/etc/passwd")
    return path


def test_only_the_asked_for_part_is_unpacked(tmp_path):
    wheel = archive(tmp_path / "a.whl", {"pkg/model/a": b"1", "pkg/model/sub/b": b"2", "pkg/code.py": b"x"})
    packages.unpack(wheel, tmp_path / "out", prefix="pkg/model/")
    assert sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file()) == [
        "a",
        "sub/b",
    ]
    packages.unpack(wheel, tmp_path / "one", prefix="pkg/model/a")
    assert (tmp_path / "one" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["../evil", "pkg/../../evil", "/etc/evil", "pkg\\..\\evil"])
def test_a_member_that_climbs_out_is_refused(tmp_path, name):
    wheel = archive(tmp_path / "a.whl", {"pkg/fine": b"1", name: b"2"})
    with pytest.raises(PackageDamaged, match="outside its folder"):
        packages.unpack(wheel, tmp_path / "out" / "deep")
    assert not (tmp_path / "out" / "deep").exists()
    assert not list(tmp_path.rglob("evil"))


def test_a_link_is_refused(tmp_path):
    wheel = archive(tmp_path / "a.whl", {"fine": b"1"}, link="shadow")
    with pytest.raises(PackageDamaged):
        packages.unpack(wheel, tmp_path / "out")


def test_a_bomb_is_refused_before_anything_is_written(tmp_path):
    wheel = archive(tmp_path / "a.whl", {"zeros": bytes(1 << 20)})
    with pytest.raises(PackageDamaged, match="1048576 bytes"):
        packages.unpack(wheel, tmp_path / "out", bound=1 << 16)
    assert not list(tmp_path.glob("out*"))


def test_another_file_than_the_pinned_one_is_refused(tmp_path, monkeypatch):
    package = packages.Package("thing", "1.0", "0" * 64)

    def serve(command, **_):
        archive(Path(command[command.index("--dest") + 1]) / "thing-1.0.whl", {"a": b"not what was pinned"})
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(packages.subprocess, "run", serve)
    with pytest.raises(PackageDamaged, match="another file than the pinned") as caught:
        packages.download(package, cache=tmp_path)
    assert exit_code(caught.value) == 3


def test_a_cached_wheel_needs_no_registry(tmp_path, monkeypatch):
    wheel = archive(tmp_path / "wheels" / "thing" / "thing-1.0.whl", {"a": b"1"})
    package = packages.Package("thing", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(packages.subprocess, "run", lambda *a, **k: pytest.fail("asked the registry"))
    assert packages.download(package, cache=tmp_path) == wheel


def test_no_registry_is_unavailable_and_says_what_to_do(tmp_path, monkeypatch):
    def refuse(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found for thing==1.0")

    monkeypatch.setattr(packages.subprocess, "run", refuse)
    with pytest.raises(PackageUnavailable, match="Check the network") as caught:
        packages.download(packages.Package("thing", "1.0", "0" * 64), cache=tmp_path)
    assert exit_code(caught.value) == 4
