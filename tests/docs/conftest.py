"""A shell in which ``forensics`` is this tree's."""

from __future__ import annotations

import os
import sys

import pytest

from tests.docs.pages import ROOT


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    shim = tmp_path / "bin" / "forensics"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from forensics.cli.main import run; run()" "$@"\n')
    shim.chmod(0o755)
    return os.environ | {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "FORENSICS_HOME": str(tmp_path / "home"),
        "TERM": "dumb",
        "COLUMNS": "100",
    }
