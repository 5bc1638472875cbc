"""What reaches the terminal: data on stdout, talk on stderr, and nothing an attacker wrote unescaped.

Every text goes through ``printable`` (see ``forensics.text``), and rich never parses markup here: square brackets in
a name would be markup to it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..text import printable

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


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


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
