"""The service as an operator runs it: ``forensics serve`` as a process, on a home of their own.

They are told what to do by ``config.toml`` in that home, so that every command given the same home is about the demo.
Nothing of the caller's own settings reaches them: the demo must not touch a production database.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forensics.errors import Unavailable
from forensics.settings import ENV_PREFIX

START_SECONDS = 120.0  # a cold disk and busy cores included
STOP_SECONDS = 20.0
LOG = "serve.log"
LINES = 6  # of it, in an error
_SERVING = re.compile(r"serving (http://\S+)")


@dataclass(frozen=True)
class Running:
    """The service under way.

    Attributes:
        home: Its folder.
        url: Where it answers.
        process: ``forensics serve``, which keeps a worker beside it; both say what they have to say to ``LOG``.
    """

    home: Path
    url: str
    process: subprocess.Popen[bytes]

    def check(self) -> None:
        """Raise when it has ended by itself.

        Raises:
            Unavailable: With the last lines it said.
        """
        if self.process.poll() is not None:
            raise _ended(self.home, self.process)

    def wait(self) -> None:
        """Until it ends, which it does by itself only when something is wrong.

        Raises:
            Unavailable: It ended.
        """
        self.process.wait()
        self.check()

    @property
    def key(self) -> str:
        """The service's public key; whoever runs both ends needs nobody to vouch for it."""
        return self.key_file.read_text(encoding="utf-8").strip()

    @property
    def key_file(self) -> Path:
        """Where it is."""
        return self.home / "keys" / "service.vkey"


def configure(home: Path, settings: Mapping[str, str | int | float]) -> None:
    """Write the settings of every command that works on this home."""
    home.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]  # JSON's text and numbers are TOML's
    (home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(home: Path, *arguments: str) -> list[str]:
    """A command of this program on a home."""
    return [sys.executable, "-m", "forensics", "--home", str(home), *arguments]


def environment() -> dict[str, str]:
    """Ours without the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def ask(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(  # noqa: S603 - our own program
        command(home, *arguments), capture_output=True, text=True, env=environment(), check=False
    )


@contextmanager
def running(home: Path) -> Iterator[Running]:
    """Start the service, and stop it whatever happens; if we are killed, it ends because its stdin does.

    Raises:
        Unavailable: It did not start.
    """
    with (home / LOG).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command(home, "serve", "--port", "0", "--until-stdin-ends"),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment(),
        )
    try:
        yield Running(home, _address(home, process), process)
    finally:
        _stop(process)


def wait_for(condition: Callable[[], bool], running: Running, *, seconds: float, pause: float, what: str) -> None:
    """Look until ``condition`` holds.

    Raises:
        Unavailable: The service ended, or it took too long.
    """
    limit = time.monotonic() + seconds
    while not condition():
        running.check()
        if time.monotonic() > limit:
            raise Unavailable(what, got=f"nothing within {seconds:.0f} s", remedy=f"See {running.home / LOG}.")
        time.sleep(pause)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; it ends its worker. What does not end in time is ended."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _address(home: Path, process: subprocess.Popen[bytes]) -> str:
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit and process.poll() is None:
        said = _SERVING.search((home / LOG).read_text(encoding="utf-8", errors="replace"))
        if said is not None:
            return said[1]
        time.sleep(0.1)
    raise _ended(home, process)


def _ended(home: Path, process: subprocess.Popen[bytes]) -> Unavailable:
    said = (home / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
    state = "does not start" if process.poll() is None else f"ended with {process.returncode}"
    return Unavailable(f"the demo's service {state}", where=str(home), got=" / ".join(said))
