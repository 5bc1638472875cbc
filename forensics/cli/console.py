"""What reaches the terminal: data on stdout, talk on stderr, and nothing an attacker wrote unescaped.

Names of tensors, files, repositories and labels come from other people. A control character in one can rewrite what
a reviewer sees, and square brackets are markup to rich; so every text goes through ``printable`` and rich never
parses markup here.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


def printable(text: object) -> str:
    """``text`` on one line, with control, bidirectional and other invisible characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in _valid(str(text)))


def say(text: str) -> None:
    """One line of talk on stderr."""
    print(printable(text), file=sys.stderr)


def emit(document: Any) -> None:
    """One JSON document on stdout: ASCII, so that no terminal acts on it; no NaN or infinity, which JSON lacks."""
    sys.stdout.write(json.dumps(_finite(document), indent=2, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


@contextmanager
def progress(title: str) -> Iterator[Progress | None]:
    """A progress bar on stderr when that is a terminal; None otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(printable(title), total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _valid(text: str) -> str:
    """File names may hold bytes that are no text (surrogate escapes), which stdout cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
