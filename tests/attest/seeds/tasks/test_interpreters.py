"""Tasks are the same on every interpreter: golden digests here, and other interpreters where they are at hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attest.seeds.test_interpreters import others

from .stream import COUNT, digests

ROOT = Path(__file__).parents[4]
FEW = 25
GOLDEN_FEW = {
    "abduction": "45c9b71757cc7b4f51a3e3a794cc3f654326ce98c2fd2fd97948d38e08c93643",
    "deduction": "8bce4dd48ff56a592459e632d9107b64620980f21cb7c8769f7377be291c02ec",
    "lists": "da494acb6181790eb81c3fd79d464e9db3fe74d6eb274fd99b6e28ff051cdf98",
    "sat": "a14f6340a3896a37bc81f550f2b738a5cf914fd07d4af26f58a5037f0b4c2831",
}
GOLDEN = {
    "abduction": "96b83c9741967513a1114881f49778477d6e7462706e10dba2acc40100dcb3a6",
    "deduction": "1ca0167996c5b8cc97211178970bda5f852e8522b76afb417ea96b05f1ec71d7",
    "lists": "56755902c95b9de8e0054f2e9509cb202efa0cb5aa7adfe31566554da724653f",
    "sat": "97aff3b4488aa19b11f40fdc844e3a2ed0bc3cfc23ef1953e557527c35156263",
}


def commands(count: int) -> list[list[str]]:
    found = [[*command[:2], "tests.attest.seeds.tasks.stream", str(count)] for command in others() if "-m" in command]
    pyodide, node = os.environ.get("FORENSICS_PYODIDE"), shutil.which("node")
    if pyodide and node:
        found.append([node, str(Path(__file__).parent / "pyodide.mjs"), pyodide, str(ROOT), str(count)])
    return found


def compare(count: int, golden: dict[str, str]) -> None:
    asked = commands(count)
    if not asked:
        pytest.skip("no other interpreter at hand: compared with the golden digests only")
    for command in asked:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=True)
        said = json.loads(done.stdout)
        assert {name: said[name] for name in golden} == golden, (said["python"], said["platform"])


def test_this_interpreter_gives_the_golden_tasks():
    assert digests(FEW) == GOLDEN_FEW


@pytest.mark.timeout(280)
def test_other_interpreters_give_the_golden_tasks():
    compare(FEW, GOLDEN_FEW)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_tasks_are_the_same_here_and_elsewhere():
    assert digests(COUNT) == GOLDEN
    compare(COUNT, GOLDEN)
