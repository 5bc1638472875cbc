"""One run of ``wrk``: requests a second, and how long they took."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ABSENT = "wrk is not installed (apt-get install wrk): nothing was measured"
_UNIT = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3}
_ROTATE = """local paths = {{{paths}}}
local at = 0
request = function()
  at = at % #paths + 1
  return wrk.format("GET", paths[at])
end
"""


class WrkFailed(Exception):
    """It is absent, or did not say what it measured."""


@dataclass(frozen=True)
class Run:
    """What was measured.

    Args:
        rate: Answered requests a second.
        p50: Median latency, milliseconds.
        p99: 99th percentile, milliseconds.
        errors: Answers that were not 2xx or 3xx, and broken connections.
        megabytes: Megabytes received a second.
    """

    rate: float
    p50: float
    p99: float
    errors: int
    megabytes: float


def run(
    url: str,
    *,
    seconds: int,
    connections: int,
    threads: int = 1,
    headers: Sequence[str] = (),
    paths: Sequence[str] = (),
    folder: Path,
) -> Run:
    """Ask for a URL as often as can be.

    Args:
        url: What is asked for.
        seconds: How long.
        connections: Kept open, each with one request under way.
        threads: Of wrk.
        headers: ``Name: value``.
        paths: Asked for in turn instead of the URL's own.
        folder: Where the script for that goes.

    Raises:
        WrkFailed: It could not be run.
    """
    program = shutil.which("wrk")
    if program is None:
        raise WrkFailed(ABSENT)
    command = [program, "--latency", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    for header in headers:
        command += ["-H", header]
    if paths:
        script = folder / "paths.lua"
        script.write_text(_ROTATE.format(paths=",".join(f'"{path}"' for path in paths)))
        command += ["-s", str(script)]
    done = subprocess.run([*command, url], capture_output=True, text=True, check=False, timeout=seconds + 60)
    if done.returncode != 0:
        raise WrkFailed(f"wrk exited {done.returncode}: {done.stderr[-500:] or done.stdout[-500:]}")
    return parse(done.stdout)


def parse(text: str) -> Run:
    """What wrk printed.

    Raises:
        WrkFailed: A figure is missing.
    """
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    errors = (int(refused[1]) if refused else 0) + (sum(map(int, broken.groups())) if broken else 0)
    return Run(
        rate=float(_find(r"Requests/sec:\s+([\d.]+)", text)[1]),
        p50=_milliseconds(_find(r"50%\s+([\d.]+)(us|ms|s|m)\b", text)),
        p99=_milliseconds(_find(r"99%\s+([\d.]+)(us|ms|s|m)\b", text)),
        errors=errors,
        megabytes=_megabytes(_find(r"Transfer/sec:\s+([\d.]+)([KMG]?B)", text)),
    )


def _find(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise WrkFailed(f"wrk did not print {pattern!r}: {text[-500:]}")
    return found


def _milliseconds(found: re.Match[str]) -> float:
    return float(found[1]) * _UNIT[found[2]]


def _megabytes(found: re.Match[str]) -> float:
    return float(found[1]) * {"B": 1e-6, "KB": 1e-3, "MB": 1.0, "GB": 1e3}[found[2]]
