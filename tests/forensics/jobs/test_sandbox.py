from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forensics.jobs.sandbox import ChildDied, ChildFailed, Limits, Sandbox
from tests.forensics.jobs import hostile


@pytest.fixture
def sandbox():
    return Sandbox(Limits(memory=2 << 30, seconds=20), preload=["forensics.jobs.lab", "tests.forensics.jobs.hostile"])


def test_a_document_and_bytes_come_back_from_another_process(sandbox):
    document, body = sandbox.run(hostile.fine, word="x")
    assert document["word"] == "x"
    assert body == b"\x00body"
    assert document["pid"] != os.getpid()


def test_a_reader_that_is_killed_kills_nobody(sandbox):
    with pytest.raises(ChildDied):
        sandbox.run(hostile.dies)


def test_a_reader_that_hangs_is_ended():
    with pytest.raises(ChildDied, match="too long"):
        Sandbox(Limits(seconds=1)).run(hostile.hangs)


def test_a_reader_that_wants_all_memory_gets_no_more_than_its_share(sandbox):
    with pytest.raises(ChildDied, match="memory"):
        sandbox.run(hostile.grows)


def test_a_refusal_keeps_its_kind(sandbox):
    with pytest.raises(ChildFailed) as refused:
        sandbox.run(hostile.refuses)
    assert refused.value.kind == "KeyError"


SCRIPT = """
import sys
from forensics.jobs.sandbox import Sandbox
from tests.forensics.jobs import hostile
if __name__ == "__main__":
    Sandbox(preload=["tests.forensics.jobs.hostile"]).run(hostile.outlives, note=sys.argv[1])
"""


def test_readers_end_with_a_worker_that_is_killed(tmp_path):
    script, note = tmp_path / "worker.py", tmp_path / "pid"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    worker = subprocess.Popen([sys.executable, str(script), str(note)], env=environment)
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    worker.kill()
    worker.wait()
    reader = Path(f"/proc/{note.read_text()}")
    while reader.exists() and "zombie" not in (reader / "status").read_text():
        assert time.monotonic() < deadline, "the reader outlived its worker"
        time.sleep(0.05)
