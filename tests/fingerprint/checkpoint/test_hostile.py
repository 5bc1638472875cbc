"""Every hostile checkpoint is refused, quickly, in little memory, by an error that can be acted on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fingerprint.checkpoint import open_checkpoint
from tests.fingerprint.checkpoint.corpus import PWNED, case_names, hostile_case

SECONDS = 1.0
MEGABYTES = 300


@pytest.mark.parametrize("name", case_names())
def test_hostile_checkpoint_is_refused_with_file_field_got_and_expected(name: str, tmp_path: Path) -> None:
    case = hostile_case(name, tmp_path)
    begin = time.process_time()  # the CPU's time: other tests share the clock
    with pytest.raises(case.error) as caught:
        open_checkpoint(case.path)
    assert time.process_time() - begin < SECONDS
    error = caught.value
    assert type(error) is case.error
    assert error.where, "names no file"
    assert case.names in str(error)
    assert error.got or error.expected
    assert str(error).isprintable()
    assert len(str(error)) < 800


_MEASURE = """
import json, sys
from pathlib import Path
from fingerprint.checkpoint import open_checkpoint
from fingerprint.errors import CheckpointError
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
def refused(path):
    try:
        open_checkpoint(path)
    except CheckpointError:
        return True
    return False
paths = json.loads(sys.stdin.read())
Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
before = peak()
print(json.dumps([all([refused(path) for path in paths]), before, peak()]))
"""


def test_no_hostile_checkpoint_takes_memory(tmp_path: Path) -> None:
    """One process opens them all, so its peak bounds each; it is measured from after the imports."""
    paths = [str(hostile_case(name, tmp_path / name).path) for name in case_names()]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], input=json.dumps(paths), capture_output=True, text=True, check=True
    )
    all_refused, before, after = json.loads(done.stdout)
    assert all_refused
    assert after - before < MEGABYTES


def test_nothing_was_run() -> None:
    assert not PWNED.exists()
