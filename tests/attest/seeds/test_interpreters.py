"""Keys and draws are the same on every interpreter and platform.

The digests are golden, so whichever interpreter runs the tests is compared with all that ran them before. Others that
are at hand are asked as well: newer pythons on PATH, the one named by ``FORENSICS_OTHER_PYTHON``, and CPython as
WebAssembly (32 bits) when ``FORENSICS_PYODIDE`` names the folder of the npm package ``pyodide``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .stream import digests

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
GOLDEN = {
    "keys": "1937d6326e1536d3d7e7ce810d3190c2f1fee8faa8812314cdd0247de0812354",
    "draws": "75a1e1b93d45655fc00577e7fba885ad709cf59b1daff8f4a7bdde8585636844",
}


def others() -> list[list[str]]:
    """Commands that print the digests under another interpreter."""
    own = f"python3.{sys.version_info.minor}"
    names = [os.environ.get("FORENSICS_OTHER_PYTHON", ""), *(f"python3.{minor}" for minor in range(12, 20)), "pypy3"]
    on_path = [shutil.which(name) for name in names if name and name != own]
    managed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.1[2-9]*/bin/python3")
    found = [path for path in (*on_path, *map(str, managed)) if path and runs(path)]
    commands = [[path, "-m", "tests.attest.seeds.stream"] for path in found]
    pyodide, node = os.environ.get("FORENSICS_PYODIDE"), shutil.which("node")
    if pyodide and node:
        commands.append([node, str(HERE / "pyodide.mjs"), pyodide, str(ROOT)])
    return commands


def runs(path: str) -> bool:
    """A version manager's shim may be there for a version that is not."""
    return subprocess.run([path, "-c", ""], capture_output=True, timeout=60, check=False).returncode == 0


def test_this_interpreter_gives_the_golden_digests():
    assert digests() == GOLDEN


@pytest.mark.timeout(280)
def test_other_interpreters_give_the_golden_digests():
    commands = others()
    if not commands:
        pytest.skip("no other interpreter at hand: compared with the golden digests only")
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=True)
        said = json.loads(done.stdout)
        print(said["python"], said["platform"])
        assert {"keys": said["keys"], "draws": said["draws"]} == GOLDEN, command
