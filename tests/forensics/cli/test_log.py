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
from forensics.cli.main import main
from forensics.keys import Keys

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(capsys):
    def run(*arguments: object):
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


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
