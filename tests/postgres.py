"""A throwaway PostgreSQL cluster on loopback, started once a session and removed with everything in it.

Where the server's binaries are absent the tests that need it are skipped with a loud reason; in CI they fail, for a
database that is never tested is not supported.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

USER = "postgres"
SECONDS = 60


def binaries() -> Path | None:
    """Folder with ``initdb`` and ``postgres``, the newest version where several are installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3].partition(".")[0]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[str]:
    """URL of an empty cluster's server, without a database name."""
    folder = binaries()
    if folder is None:
        message = "PostgreSQL server binaries (initdb, postgres) are not installed: nothing was tested on PostgreSQL"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    as_user = _as_postgres()
    data = Path(tempfile.mkdtemp(prefix="forensics-pg-"))
    if as_user:
        account = pwd.getpwnam(USER)
        os.chown(data, account.pw_uid, account.pw_gid)
    port = _free_port()
    _run([*as_user, str(folder / "initdb"), "-D", str(data / "db"), "-U", USER, "-A", "trust", "--no-sync"])
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={data} -c fsync=off"
    control = [*as_user, str(folder / "pg_ctl"), "-D", str(data / "db"), "-w", "-t", str(SECONDS)]
    _run([*control, "-l", str(data / "log"), "-o", options, "start"])
    try:
        yield f"postgresql://{USER}@127.0.0.1:{port}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, capture_output=True, timeout=SECONDS)
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_cluster: str) -> Iterator[str]:
    """URL of a fresh, empty database."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(f"{postgres_cluster}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield f"{postgres_cluster}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _as_postgres() -> list[str]:
    """The server refuses to run as root; become its own user."""
    if os.geteuid() != 0:
        return []
    return ["runuser", "-u", USER, "--"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd="/")
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} exited {done.returncode}: {done.stderr[-2000:]}")
