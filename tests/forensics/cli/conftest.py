"""Commands as they are typed, in this process."""

from __future__ import annotations

import json

import pytest

from forensics.cli.main import main


@pytest.fixture
def run(capsys):
    """Runs a command in the current folder; gives exit code, stdout and stderr."""

    def run(*arguments: object):
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def json_of(run):
    """Runs a command with ``--json``; gives the one document it prints."""

    def json_of(*arguments: object, code: int = 0):
        found, out, err = run(*arguments, "--json")
        assert found == code, out + err
        return json.loads(out)

    return json_of
