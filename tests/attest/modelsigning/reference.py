"""The reference tool as its users run it: ``model_signing`` on the command line, in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 120


def command() -> str:
    """Path of the tool; the test is skipped, loudly, where it is not installed."""
    found = shutil.which("model_signing", path=str(Path(sys.executable).parent)) or shutil.which("model_signing")
    if found is None:
        pytest.skip("model_signing is not installed: nothing was tested against the reference tool")
    return found


def verify(model: Path, signature: Path, key: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """``model_signing verify key``; exit 0 is acceptance."""
    arguments = ["verify", "key", str(model), "--signature", str(signature), "--public_key", str(key), *options]
    return _run(arguments)


def sign(model: Path, signature: Path, key: Path, *options: str) -> None:
    """``model_signing sign key``."""
    arguments = ["sign", "key", str(model), "--signature", str(signature), "--private_key", str(key), *options]
    done = _run(arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command(), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False, cwd=Path("/")
    )
