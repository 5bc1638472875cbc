"""A throwaway PostgreSQL cluster on loopback, removed with everything in it; for tests and for runs that compare."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

USER = "postgres"
SECONDS = 60
ABSENT = "PostgreSQL server binaries (initdb, postgres) are not installed: nothing was tested on PostgreSQL"


class ClusterFailed(Exception):
    """A command of the server's failed; the text is what it said."""


def binaries() -> Path | None:
    """Folder with ``initdb`` and ``postgres``, the newest version where several are installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3].partition(".")[0]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@contextmanager
def cluster(*, fsync: bool = False) -> Iterator[str]:
    """URL of an empty cluster's server, without a database name.

    Args:
        fsync: Whether the server waits for the disk, as it does in production.

    Raises:
        ClusterFailed: It cannot be made or started.
    """
    folder = binaries()
    if folder is None:
        raise ClusterFailed(ABSENT)
    as_user = as_postgres()
    data = Path(tempfile.mkdtemp(prefix="forensics-pg-"))
    if as_user:
        account = pwd.getpwnam(USER)
        os.chown(data, account.pw_uid, account.pw_gid)
    port = _free_port()
    try:
        _run([*as_user, str(folder / "initdb"), "-D", str(data / "db"), "-U", USER, "-A", "trust", "--no-sync"])
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={data}"
        options += "" if fsync else " -c fsync=off"
        control = [*as_user, str(folder / "pg_ctl"), "-D", str(data / "db"), "-w", "-t", str(SECONDS)]
        _run([*control, "-l", str(data / "log"), "-o", options, "start"])
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=False, capture_output=True, timeout=SECONDS)
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def database(server: str) -> Iterator[str]:
    """URL of a fresh, empty database of a cluster, dropped in the end."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield f"{server}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def as_postgres() -> list[str]:
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
        raise ClusterFailed(f"{' '.join(command)} exited {done.returncode}: {done.stderr[-2000:]}")
