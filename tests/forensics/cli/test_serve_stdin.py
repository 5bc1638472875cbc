"""A server that somebody started ends with them, in order, however it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stdin", signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_its_stdin_does_and_at_a_signal(own_home, how):
    command = [sys.executable, "-m", "forensics", "serve", "--port", "0", "--no-worker", "--until-stdin-ends"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        said = ""
        while "serving" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        if how == "stdin":
            process.stdin.close()
        else:
            process.send_signal(how)
        rest = process.stderr.read()
        assert process.wait(60) != -signal.SIGABRT
    assert "Fatal" not in rest
    assert "Traceback" not in rest
