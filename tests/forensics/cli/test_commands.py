"""The commands as they are typed: exit code, one document on stdout, talk on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.forensics import models

ADA = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
BOB = "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """Checkpoints: ada, a noisy copy of hers, the same re-uploaded in float32, and bob, who is a stranger."""
    desk = tmp_path_factory.mktemp("desk")
    ada = models.decoder(1)
    models.write(ada, desk / "ada")
    models.write(models.noisy(ada, 0.01), desk / "noisy")
    models.write({n: t.float() for n, t in models.renamed(ada).items()}, desk / "reupload")
    models.write(models.decoder(2), desk / "bob")
    return desk


@pytest.fixture
def run(run, desk, monkeypatch):
    """Runs a command in the folder of checkpoints."""
    monkeypatch.chdir(desk)
    return run


def test_scan_writes_a_fingerprint_that_compares(run, json_of, tmp_path):
    file = tmp_path / "ada.fp"
    document = json_of("scan", "ada", "--out", file)
    assert document["out_bytes"] == file.stat().st_size
    assert document["content_root"].startswith("sha256:")
    assert document["parameters"] == sum(t.numel() for t in models.decoder(1).values())
    code, out, err = run("compare", "reupload", file)
    assert (code, out.split()[0]) == (1, "IDENTICAL")
    assert "sketch depth" in err


def test_compare_has_the_contracts_fields_and_codes(json_of):
    document = json_of("compare", "noisy", "ada", code=1)
    wanted = {"relation", "copy", "confidence", "false_accusation_probability", "parents", "transforms", "coverage",
              "per_layer", "candidate", "reference", "algorithm", "seconds"}  # fmt: skip
    assert wanted <= set(document)
    assert (document["relation"], document["copy"], document["depth"]) == ("perturbed", True, "full")
    assert json_of("compare", "bob", "ada")["copy"] is False
    assert json_of("compare", "noisy", "ada", "--depth", "sketch", code=1)["depth"] == "sketch"


def test_full_depth_without_weights_is_a_usage_error(run, desk, tmp_path):
    run("scan", "ada", "--out", tmp_path / "ada.fp")
    code, out, err = run("compare", "noisy", tmp_path / "ada.fp", "--depth", "full")
    assert (code, out) == (2, "")
    assert "only a fingerprint" in err


def test_the_life_of_a_known_model(run, json_of):
    assert run("known", "list")[0] == 0
    added = json_of("known", "add", "ada", "--role", "submission", "--hotkey", ADA, "--block", 7, "--label", "ada")
    assert added["new_model"]
    assert not json_of("known", "add", "ada", "--hotkey", ADA, "--block", 7)["new_claim"]
    json_of("known", "add", "bob", "--role", "base", "--label", "bob")
    (first, second) = json_of("known", "list")["models"]
    assert (first["earliest"]["hotkey"], first["earliest"]["block"]) == (ADA, 7)
    assert second["earliest"]["role"] == "base"
    _, out, _ = run("known", "list")
    assert "ada, hotkey" in out
    assert "since block 7" in out
    gone = json_of("known", "remove", first["content_root"][:20], "--reason", "test")
    assert len(gone["withdrawn"]) == 1
    assert len(json_of("known", "list")["models"]) == 1
    assert len(json_of("known", "list", "--withdrawn")["models"]) == 2


def test_identify_names_owner_and_block(run, json_of):
    run("known", "add", "ada", "--hotkey", ADA, "--block", 7, "--label", "ada")
    run("known", "add", "bob", "--role", "base", "--label", "bob")
    found = json_of("identify", "noisy", code=1)
    assert (found["relation"], found["finding"], found["depth"]) == ("perturbed", True, "full")
    assert (found["of"]["earliest"]["label"], found["of"]["earliest"]["block"]) == ("ada", 7)
    assert found["searched"] == found["proposed"] == 2
    code, out, _ = run("identify", "noisy", "--depth", "sketch")
    assert code == 1
    assert "since block 7" in out


def test_the_earliest_claim_among_copies_is_the_one_copied_from(run, json_of):
    run("known", "add", "noisy", "--hotkey", BOB, "--block", 9, "--label", "later copy")
    run("known", "add", "ada", "--hotkey", ADA, "--block", 7, "--label", "original")
    found = json_of("identify", "reupload", "--depth", "sketch", code=1)
    assert found["of"]["earliest"]["label"] == "original"
    assert len(found["matches"]) == 2


def test_ones_own_and_later_claims_accuse_nobody(run, json_of):
    run("known", "add", "ada", "--hotkey", ADA, "--block", 7)
    for options in (["--hotkey", ADA], ["--block", 7], ["--block", 3], ["--hotkey", ADA, "--block", 9]):
        found = json_of("identify", "reupload", "--depth", "sketch", *options)
        assert (found["copy"], found["finding"]) == (True, False), options
    assert json_of("identify", "reupload", "--depth", "sketch", "--hotkey", BOB, "--block", 8, code=1)["finding"]


def test_identify_with_nothing_known_is_inconclusive(run, json_of):
    assert json_of("identify", "ada")["relation"] == "inconclusive"
    assert run("identify", "ada")[0] == 0


def test_a_known_model_that_changed_on_disk_is_compared_by_its_fingerprint(run, json_of, tmp_path):
    folder = models.write(models.decoder(1), tmp_path / "moving")
    run("known", "add", folder, "--label", "ada")
    models.write(models.decoder(3), folder)
    code, out, err = run("identify", "noisy", "--json")
    assert (code, json.loads(out)["depth"]) == (1, "sketch")
    assert "no longer what was registered" in err


def test_evidence_replays_with_its_exit_code(run, json_of, tmp_path):
    file = tmp_path / "e.zip"
    assert run("compare", "noisy", "ada", "--depth", "sketch", "--evidence", file)[0] == 1
    assert json_of("replay", file, code=1)["replayed"] is True
    run("compare", "noisy", "ada", "--evidence", file)
    code, _, err = run("replay", file)
    assert code == 2
    assert "--candidate PATH --reference PATH" in err
    assert run("replay", file, "--candidate", "noisy", "--reference", "ada")[0] == 1
    code, _, err = run("replay", file, "--candidate", "bob", "--reference", "ada")
    assert code == 3
    assert "not the weights" in err
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert run("replay", file)[0] == 3


def test_a_model_known_by_its_digest_can_be_compared_with(run, json_of):
    root = json_of("known", "add", "ada")["content_root"]
    assert json_of("compare", "noisy", root, code=1)["reference"] == root
    assert json_of("compare", "noisy", f"known:{root[7:20]}", code=1)["depth"] == "sketch"


WRONG = {
    "no command": ([], 2),
    "unknown command": (["frobnicate"], 2),
    "unknown option": (["scan", "ada", "--frobnicate"], 2),
    "missing argument": (["compare", "ada"], 2),
    "bad choice": (["compare", "ada", "bob", "--depth", "deep"], 2),
    "bad number": (["known", "add", "ada", "--block", "many"], 2),
    "negative block": (["known", "add", "ada", "--block", "-1"], 2),
    "hotkey with spaces": (["known", "add", "ada", "--hotkey", "a b"], 2),
    "branch": (["scan", "org/model@main"], 2),
    "out is a folder": (["scan", "ada", "--out", "."], 2),
    "out in no folder": (["scan", "ada", "--out", "nowhere/x.fp"], 2),
    "digest too short": (["known", "remove", "ab"], 2),
    "absent": (["scan", "absent"], 4),
    "absent commit": (["scan", "org/model@" + "0" * 40], 4),
    "absent evidence": (["replay", "absent.zip"], 4),
    "not a checkpoint": (["scan", "junk"], 3),
    "empty folder": (["scan", "empty"], 4),
    "not evidence": (["replay", "junk"], 3),
    "not known": (["known", "remove", "sha256:" + "0" * 64], 3),
    "home is a file": (["--home", "junk", "known", "list"], 4),
    "nonsense database": (["--database", "nonsense", "known", "list"], 3),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_wrong_is_one_line_and_its_code(run, desk, monkeypatch, name, as_json):
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(desk / "nothing"))
    (desk / "junk").write_bytes(b"\x89junk" * 100)
    (desk / "empty").mkdir(exist_ok=True)
    arguments, expected = WRONG[name]
    code, out, err = run(*arguments, *(["--json"] if as_json else []))
    assert code == expected, err
    assert "Traceback" not in err
    if as_json:
        error = json.loads(out)["error"]
        assert set(error) == {"code", "message", "where", "got", "expected", "remedy"}
        assert error["message"]
    elif name != "no command":
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1


def test_hostile_names_are_escaped_on_the_way_out(run, tmp_path):
    hostile = "\x1b[2J[bold]\u202egnp.exe\n"
    folder = models.write(models.decoder(1), tmp_path / "plain")
    run("known", "add", folder, "--label", hostile)
    for arguments in (
        ["known", "list"],
        ["identify", "noisy", "--depth", "sketch"],
        ["scan", hostile],
        ["known", "list", "--json"],
    ):
        _, out, err = run(*arguments)
        assert not {"\x1b", "\u202e"} & set(out + err)
    assert "[bold]" in run("known", "list")[1]


def test_an_unforeseen_error_is_unavailable_not_a_traceback(run, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("forensics.cli.sources.checkpoint", broken)
    code, _, err = run("scan", "ada")
    assert code == 4
    assert "ZeroDivisionError" in err
    assert "FORENSICS_DEBUG" in err


def test_an_interrupt_is_130(run, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("forensics.cli.sources.checkpoint", interrupted)
    assert run("scan", "ada")[0] == 130


def shell(*arguments: str, **options):
    command = [sys.executable, "-c", "from forensics.cli.main import run; run()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_help_is_quick_and_imports_nothing_heavy():
    code = "import sys; from forensics.cli.main import main; main(['--help']); print('|', *sorted(sys.modules))"
    best = 9.0
    for _ in range(3):
        began = time.process_time(), os.times()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        ended = os.times()
        best = min(
            best, ended.children_user + ended.children_system - began[1].children_user - began[1].children_system
        )
    modules = done.stdout.split("|")[1].split()
    assert not {"torch", "sqlalchemy", "rich", "numpy", "pydantic"} & set(modules)
    assert best < 0.5, f"{best:.2f} s of processor time"


def test_a_reader_that_goes_away_is_no_error(own_home):
    code = "from forensics.cli.main import run; run()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "known", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    with process.stderr:
        talk = process.stderr.read().decode()
    assert process.wait(60) == 141
    assert talk == ""


def test_nothing_was_left_running_with_more_threads():
    assert torch.get_num_threads() == 1
