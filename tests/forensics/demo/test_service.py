"""The demo's service is started with the demo's settings alone, and never outlives the demo."""

from __future__ import annotations

import subprocess
import sys

import pytest

from forensics.demo import service
from forensics.errors import Unavailable
from forensics.settings import load


def test_settings_reach_every_command_through_the_home(tmp_path):
    folder = tmp_path / 'a "quoted" home\\'
    service.configure(folder, {"network": "demo", "netuid": 120, "chain_seconds": 0.5, "chain": str(folder / "x")})
    settings = load(home=folder)
    assert (settings.network, settings.netuid, settings.chain_seconds) == ("demo", 120, 0.5)
    assert settings.chain == str(folder / "x")


def test_the_callers_own_settings_stay_outside(monkeypatch):
    monkeypatch.setenv("FORENSICS_DATABASE", "postgresql://production")
    assert not [name for name in service.environment() if name.startswith("FORENSICS_")]


def serving(*code: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(code)]


READY = "import sys, time; print('serving http://127.0.0.1:1', file=sys.stderr, flush=True)"


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Sets what is run instead of the service."""

    def set_(*code: str) -> None:
        monkeypatch.setattr(service, "command", lambda home, *arguments: serving(*code))

    return set_


def test_it_is_stopped_when_the_demo_fails(program, tmp_path):
    program(READY, "time.sleep(60)")
    started = []

    def fail() -> None:
        with service.running(tmp_path) as running:
            started.append(running)
            running.check()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert started[0].url == "http://127.0.0.1:1"
    assert started[0].process.returncode is not None


def test_one_that_does_not_listen_to_reason_is_stopped_all_the_same(program, tmp_path, monkeypatch):
    monkeypatch.setattr(service, "STOP_SECONDS", 0.2)
    program("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", READY, "time.sleep(60)")
    with service.running(tmp_path) as running:
        pass
    assert running.process.returncode == -9


def test_one_that_does_not_start_says_why(program, tmp_path):
    program("import sys; sys.exit('the disk is full')")
    with pytest.raises(Unavailable, match="the disk is full"), service.running(tmp_path):
        pass


def test_one_that_dies_later_is_noticed(program, tmp_path):
    program(READY, "time.sleep(0.2); sys.exit('out of memory')")
    with service.running(tmp_path) as running, pytest.raises(Unavailable, match="out of memory"):
        service.wait_for(lambda: False, running, seconds=60, pause=0.05, what="nothing")


def test_waiting_ends(program, tmp_path):
    program(READY, "time.sleep(60)")
    with service.running(tmp_path) as running, pytest.raises(Unavailable, match="nobody came"):
        service.wait_for(lambda: False, running, seconds=0.2, pause=0.05, what="nobody came")


def test_a_command_runs_to_its_end(tmp_path):
    done = service.ask(tmp_path, "--help")
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0
    assert "Exit codes" in done.stdout
