"""``forensics log`` on this home's own log and on a service's, ``forensics serve`` on an empty home."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from attest.log.note import Checkpoint, sign_checkpoint
from forensics.keys import Keys

ROOT = Path(__file__).parents[3]


@pytest.fixture
def log(own_home):
    """This home's own log with seven entries."""
    from forensics.api.services import Services
    from forensics.settings import load
    from forensics.store.engine import connect
    from forensics.store.migrate import ensure

    settings = load(home=own_home)
    engine = connect(settings.database_url)
    ensure(engine)
    log = Services.open(settings, engine).log
    log.append([b"entry %d" % i for i in range(7)])
    log.checkpoint()
    yield log
    engine.dispose()


def test_checkpoint_prove_consistency_and_audit(run, log, tmp_path):
    old = tmp_path / "old"
    assert run("log", "checkpoint", "--out", old)[0] == 0
    log.append([b"more"])
    code, out, _ = run("log", "checkpoint", "--json")
    assert (code, json.loads(out)["size"]) == (0, 8)
    receipt = tmp_path / "receipt"
    assert run("log", "prove", 3, "--out", receipt)[0] == 0
    code, out, _ = run("log", "consistency", old)
    assert (code, "from 7 to 8" in out) == (0, True)
    assert run("log", "consistency", old, receipt)[0] == 0
    code, out, _ = run("log", "audit")
    assert (code, "8 entries" in out) == (0, True)
    assert run("log", "prove", 99)[0] == 3


def test_a_second_history_is_kept_as_evidence_and_freezes_the_log(run, log, own_home, tmp_path):
    forged = Checkpoint(log.key.name, 4, b"\7" * 32)
    (tmp_path / "other").write_bytes(sign_checkpoint(forged, Keys(own_home / "keys").service()).encode())
    code, _, err = run("log", "consistency", tmp_path / "other")
    assert (code, "not of one history" in err) == (3, True)
    assert len(list((own_home / "evidence").iterdir())) == 2
    code, _, err = run("log", "checkpoint")
    assert (code, "frozen" in err) == (3, True)


def test_a_changed_row_is_found_before_anything_is_signed(run, log, own_home):
    with sqlite3.connect(own_home / "forensics.db") as database:
        database.execute("DROP TRIGGER log_leaf_no_update")
        database.execute("UPDATE log_leaf SET body = ? WHERE number = 2", (b"rewritten",))
    database.close()
    for command in ("audit", "checkpoint"):
        code, out, _ = run("log", command, "--json")
        assert (code, json.loads(out)["error"]["code"]) == (3, "log_tampered")


@pytest.fixture
def served(run, monkeypatch, own_home, tmp_path):
    """``served(n, **changes)``: a service with n entries under one key, some of its answers changed by path."""
    from attest.keys.ed25519 import Ed25519Signer
    from attest.log.log import Log
    from forensics.claims import remote
    from tests.attest.log.memory import MemoryLog

    signer = Ed25519Signer(bytes(range(32)))

    def serve(count, word="entry", **changes):
        log = Log(MemoryLog(), signer, origin="log.example")
        log.append([b"%s %d" % (word.encode(), i) for i in range(count)])
        log.checkpoint()

        def checkpoint(self):
            return log.latest().note.encode()

        answers = {
            "identity": lambda self: remote.Identity("5x", log.key, "0x", None),
            "checkpoint": checkpoint,
            "receipt": lambda self, index: log.prove(index).encode(),
            "consistency": lambda self, old, new: log.prove_consistency(old, new),
            "tile": lambda self, path: log.tile(path),
        }
        for name, answer in (answers | changes).items():
            monkeypatch.setattr(remote.Remote, name, answer)
        return log

    return serve


URL = ("--url", "http://service")


def kept(home):
    return sorted(path.name.split("-")[0] for path in (home / "evidence").iterdir())


def test_a_receipt_of_another_entry_is_refused_and_not_written(run, served, tmp_path):
    log = served(6)
    wrong = log.prove(3).encode()
    served(6, receipt=lambda self, index: wrong)
    code, _, err = run("log", "prove", 0, *URL, "--out", tmp_path / "entry")
    assert (code, "another entry" in err, (tmp_path / "entry").exists()) == (3, True, False)
    assert run("log", "prove", 3, *URL, "--out", tmp_path / "entry")[0] == 0


def test_a_log_that_shrank_leaves_both_checkpoints(run, served, own_home, tmp_path):
    served(6)
    assert run("log", "checkpoint", *URL, "--out", tmp_path / "kept")[0] == 0
    served(2, "other")
    code, _, err = run("log", "consistency", tmp_path / "kept", *URL)
    assert (code, "smaller than the one kept" in err, kept(own_home)) == (3, True, ["smaller", "smaller"])


def test_an_audit_that_fails_keeps_what_was_signed_and_served(run, served, own_home):
    served(6)
    assert run("log", "audit", *URL)[0] == 0
    served(2, "other")
    assert run("log", "audit", *URL)[0] == 3
    assert kept(own_home) == ["smaller", "smaller"]
    log = served(6)
    served(6, tile=lambda self, path: log.tile(path).replace(b"entry 3", b"entry 9"))
    assert run("log", "audit", *URL)[0] == 3
    assert kept(own_home) == ["smaller", "smaller", "tampered", "tampered"]


def test_a_log_with_two_histories_is_refused_until_the_evidence_is_removed(run, served, own_home, tmp_path):
    served(6)
    receipt = tmp_path / "kept"
    assert run("log", "checkpoint", *URL, "--out", receipt)[0] == 0
    log = served(7, "other")
    assert run("log", "consistency", receipt, *URL)[0] == 3
    assert kept(own_home) == ["fork", "fork"]
    for command in (
        ("log", "checkpoint", *URL),
        ("log", "checkpoint", *URL, "--trust", log.key),
        ("log", "prove", 0, *URL),
        ("log", "audit", *URL),
        ("verify", receipt),
        ("verify", receipt, "--trust", log.key),
    ):
        code, _, err = run(*command)
        assert (code, "two histories" in err, str(own_home / "evidence") in err) == (3, True, True), command
    for path in (own_home / "evidence").iterdir():
        path.unlink()
    assert run("log", "checkpoint", *URL)[0] == 0


def test_serve_makes_an_empty_home_ready_and_stops_when_told(tmp_path):
    environment = os.environ | {"FORENSICS_HOME": str(tmp_path / "empty"), "PYTHONPATH": str(ROOT)}
    script = "from forensics.cli.main import run; run()"
    server = subprocess.Popen(
        [sys.executable, "-c", script, "serve", "--port", "0"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = []
        for line in server.stderr:
            lines.append(line)
            if "serving" in line:
                break
        url = lines[-1].split()[1]
        done = subprocess.run(
            [sys.executable, "-c", script, "log", "audit", "--url", url, "--json"],
            env=environment | {"FORENSICS_HOME": str(tmp_path / "sceptic")},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert json.loads(done.stdout)["audited"] is True, done.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert (tmp_path / "empty" / "keys" / "service.pem").stat().st_mode & 0o077 == 0
