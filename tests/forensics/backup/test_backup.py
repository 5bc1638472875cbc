"""A home in one file and back: everything is there, proven, and nothing hostile in the file gets out of it."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tarfile
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from attest.log.errors import LogTampered
from forensics.api.services import Services
from forensics.backup import make, restore
from forensics.backup.contents import DATABASE, MANIFEST, PUBLIC, SEALED
from forensics.cli.main import main
from forensics.errors import BadInput, StoreCorrupt, Unavailable, UsageError
from forensics.settings import load
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.forensics.attesting import GENESIS, NETUID, claim_of, pair, signed, signer

ADA = pair("ada")
TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
PASSWORD = "correct horse battery"  # noqa: S105 - of a test


def opened(home):
    settings = load(home=home, genesis=GENESIS, netuid=NETUID)
    engine = connect(settings.database_url)
    ensure(engine)
    return settings, engine, Services.open(settings, engine)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A home with twelve statements in its log."""
    settings, engine, services = opened(tmp_path_factory.mktemp("template") / "one")
    for number in range(12):
        services.attestations.receive(signed(claim_of(ADA, f"m{number}"), signer(ADA)).to_json(), submitted_by="x")
    services.log.checkpoint()
    engine.dispose()
    return settings.home


@pytest.fixture
def home(template, tmp_path):
    shutil.copytree(template, tmp_path / "one")
    return load(home=tmp_path / "one", genesis=GENESIS, netuid=NETUID)


@pytest.fixture(scope="module")
def backup(template):
    """A backup of it with its keys, made once: sealing them costs time on purpose."""
    settings = load(home=template, genesis=GENESIS, netuid=NETUID)
    make(settings, template.parent / "saved.tar", keys_password=PASSWORD)
    return template.parent / "saved.tar"


@pytest.fixture
def saved(backup, tmp_path):
    return Path(shutil.copy(backup, tmp_path / "saved.tar"))


def other(tmp_path, name="two"):
    return load(home=tmp_path / name, genesis=GENESIS, netuid=NETUID)


def rewritten(path, change):
    """The same tar with some members changed: ``change`` gives the bytes, or None to leave the member out."""
    out = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=out, mode="w") as new:
        for member in old.getmembers():
            data = change(member.name, old.extractfile(member).read())
            if data is not None:
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
    path.write_bytes(out.getvalue())
    return path


def test_what_was_saved_is_there_again_with_its_log_and_its_identity(home, saved, tmp_path):
    found = restore(other(tmp_path), saved, keys_password=PASSWORD)
    assert (found.log_size, found.blobs, found.keys) == (12, 12, True)
    _, engine, services = opened(tmp_path / "two")
    _, before, original = opened(home.home)
    assert services.log.latest() == original.log.latest()
    assert services.hotkey == original.hotkey
    for index in range(12):
        assert services.log.leaf(index) == original.log.leaf(index)
    services.attestations.receive(signed(claim_of(ADA, "more"), signer(ADA)).to_json(), submitted_by="x")
    assert services.log.size() == 13
    engine.dispose()
    before.dispose()


def test_private_keys_stay_where_they_are_unless_asked_for(home, tmp_path):
    made = make(home, tmp_path / "plain.tar")
    assert not made.keys
    secret = (home.home / "keys" / "service.pem").read_bytes()
    assert secret not in (tmp_path / "plain.tar").read_bytes()
    assert (tmp_path / "plain.tar").stat().st_mode & 0o077 == 0
    with tarfile.open(tmp_path / "plain.tar") as archive:
        assert {m.name for m in archive if not m.name.startswith("blobs/")} == {DATABASE, PUBLIC, MANIFEST}
    restore(other(tmp_path), tmp_path / "plain.tar")
    assert [p.name for p in (tmp_path / "two" / "keys").iterdir()] == ["service.vkey"]
    with pytest.raises(BadInput, match="public half"):  # a new key does not pass for the old one
        opened(tmp_path / "two")


def test_sealed_keys_open_with_their_password_alone(home, saved, tmp_path):
    assert (home.home / "keys" / "service.pem").read_bytes() not in saved.read_bytes()
    with pytest.raises(BadInput, match="do not open"):
        restore(other(tmp_path), saved, keys_password="another password")  # noqa: S106
    assert not (tmp_path / "two").exists()
    with pytest.raises(BadInput, match="too short"):
        make(home, tmp_path / "x.tar", keys_password="short")  # noqa: S106
    assert not (tmp_path / "x.tar").exists()


def test_a_home_with_anything_in_it_is_not_touched(saved, tmp_path):
    target = tmp_path / "two"
    target.mkdir()
    (target / "note.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        restore(other(tmp_path), saved)
    assert [p.name for p in target.iterdir()] == ["note.txt"]
    (target / "note.txt").unlink()
    restore(other(tmp_path), saved)
    assert (target / DATABASE).is_file()


def test_a_backup_made_while_others_write_is_one_state(home, tmp_path):
    _, engine, services = opened(home.home)
    stop, wrote = threading.Event(), threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            services.attestations.receive(signed(claim_of(ADA, f"w{number}"), signer(ADA)).to_json(), submitted_by="x")
            services.log.checkpoint()
            number += 1
            wrote.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wrote.wait(20)
        for number in range(3):
            make(home, tmp_path / f"{number}.tar")
    finally:
        stop.set()
        thread.join()
    for number in range(3):
        found = restore(other(tmp_path, f"home{number}"), tmp_path / f"{number}.tar")
        assert found.log_size > 12
    engine.dispose()


def test_a_log_that_was_changed_is_found_even_when_every_digest_was_made_to_fit(saved, tmp_path):
    digests = {}

    def change(name, data):
        if name == DATABASE:
            path = tmp_path / "changed.db"
            path.write_bytes(data)
            with closing(sqlite3.connect(path)) as database:
                for (trigger,) in database.execute(TRIGGERS).fetchall():
                    database.execute(f"DROP TRIGGER {trigger}")
                database.execute("UPDATE log_leaf SET body = X'00' WHERE number = 3")
                database.commit()
            data = path.read_bytes()
            digests[DATABASE] = sha256(data).hexdigest()
        if name == MANIFEST:
            manifest = json.loads(data)
            manifest["digests"] |= digests
            data = json.dumps(manifest).encode()
        return data

    with pytest.raises(LogTampered):
        restore(other(tmp_path), rewritten(saved, change))
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda name, data: data[:-1] + b"x" if name.startswith("blobs/") else data,
        lambda name, data: data[:5000] + b"x" + data[5001:] if name == DATABASE else data,
        lambda name, data: None if name == MANIFEST else data,
        lambda name, data: None if name == DATABASE else data,
        lambda name, data: None if name == PUBLIC else data,
        lambda name, data: b"{}" if name == MANIFEST else data,
        lambda name, data: data.replace(b'"blobs": 12', b'"blobs": 13') if name == MANIFEST else data,
        lambda name, data: data.replace(b'"version": "', b'"version": "9') if name == MANIFEST else data,
        lambda name, data: data + b"x" if name == SEALED else data,
    ],
    ids=["blob", "database", "no manifest", "no database", "no key", "empty", "blob missing", "version", "keys"],
)
def test_a_damaged_backup_is_refused_and_leaves_nothing(saved, tmp_path, change):
    with pytest.raises(BadInput):
        restore(other(tmp_path), rewritten(saved, change))
    assert [p.name for p in tmp_path.iterdir() if "two" in p.name] == []


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "blobs/../../evil", "keys/service.pem", "config.toml"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE])
def test_names_and_kinds_that_no_backup_has_are_refused(tmp_path, name, kind):
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(BadInput):
        restore(other(tmp_path), path)
    assert {p.name for p in tmp_path.iterdir()} == {"evil.tar"}


def test_what_is_no_tar_is_refused(tmp_path):
    path = tmp_path / "x.tar"
    path.write_bytes(b"not a tar")
    with pytest.raises(Unavailable):
        restore(other(tmp_path), path)


def test_a_backup_from_before_a_known_checkpoint_is_refused(home, saved, tmp_path):
    _, engine, services = opened(home.home)
    same = services.log.checkpoint()
    services.attestations.receive(signed(claim_of(ADA, "later"), signer(ADA)).to_json(), submitted_by="x")
    later = services.log.checkpoint()
    engine.dispose()
    with pytest.raises(BadInput, match="second history"):
        restore(other(tmp_path), saved, checkpoint=later)
    assert restore(other(tmp_path), saved, checkpoint=same).log_size == 12


def test_a_damaged_home_is_not_passed_off_as_a_backup(home, tmp_path):
    path = next((home.home / "blobs").glob("??/*"))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(StoreCorrupt, match="blob"):
        make(home, tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


def test_other_databases_have_tools_of_their_own(tmp_path):
    settings = load(home=tmp_path / "h", database="postgresql://db/forensics")
    with pytest.raises(UsageError, match="pg_dump"):
        make(settings, tmp_path / "x.tar")


def test_from_the_command_line(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORENSICS_BACKUP_PASSWORD", PASSWORD)
    file, target = tmp_path / "b.tar", tmp_path / "two"
    assert main(["--home", str(home.home), "backup", str(file), "--keys", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blobs"] == 12
    assert main(["--home", str(target), "restore", str(file), "--keys", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_size"] == 12
    assert main(["--home", str(target), "restore", str(file)]) == 2
    assert main(["--home", str(target), "log", "audit"]) == 0
    capsys.readouterr()
