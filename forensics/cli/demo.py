"""``forensics demo``: a small real subnet, played through the real service, read as a validator reads it."""

from __future__ import annotations

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Unavailable
from .console import say

if TYPE_CHECKING:
    from ..demo.play import Show

WIDTH = 132
"""Columns of the picture, and of the table where stdout is no terminal."""


def demo(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="End after printing, and leave nothing behind.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Also draw what is printed, as SVG.", dir_okay=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
) -> int:
    """Train a subnet of miners, run the service on it, and mark what a validator reads against the truth.

    The service goes on until it is interrupted. Exits 0 when nobody honest was accused, no copy was missed, and the
    snapshot and its evidence check out; 1 otherwise.
    """
    began = perf_counter()
    with _folder(context, once=once) as folder:
        return _play(folder, began=began, picture=picture, as_json=as_json, once=once)


@contextmanager
def _folder(context: typer.Context, *, once: bool) -> Iterator[Path]:
    """Where everything goes: a folder that is removed again, or ``demo`` in the home, for one demo at a time."""
    if once:
        folder = Path(tempfile.mkdtemp(prefix="forensics-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    from ..settings import load

    home = load(**{k: v for k, v in (context.obj or {}).items() if k == "home"}).home
    home.mkdir(parents=True, exist_ok=True)
    with (home / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Unavailable(
                "a demo is running in this home", where=str(home / "demo"), remedy="Interrupt it first, or use --once."
            ) from None
        yield home / "demo"


def _play(folder: Path, *, began: float, picture: Path | None, as_json: bool, once: bool) -> int:
    from rich.console import Console

    from ..demo.next_steps import next_steps
    from ..demo.play import open_show, prepare, upload
    from ..demo.table import document, draw, show

    say("training the subnet's honest models (half a minute to two minutes on two cores)")
    ready = prepare(folder, say=say)
    with open_show(folder, upload(ready), say=say) as playing:
        judged = playing.play(say=say)
        reading = playing.reading()
        steps = next_steps(playing, judged, reading, folder)
        seconds = perf_counter() - began
        if as_json:
            from .console import emit

            about = {"url": playing.running.url, "key": playing.running.key} | reading.document()
            emit(document(judged, steps, seconds=seconds, service=about))
        else:
            show(judged, steps, seconds=seconds, console=Console(width=None if sys.stdout.isatty() else WIDTH))
        if picture is not None:
            picture.write_text(draw(judged, seconds=seconds, width=WIDTH), encoding="utf-8")
        if not once:
            _stay(playing, folder)
    return int(any(one.accused or one.missed for one in judged) or not all(step.good for step in steps))


def _stay(playing: Show, folder: Path) -> None:
    """Until somebody interrupts, which is how this ends."""
    say(f"Everything is in {folder}; FORENSICS_HOME={playing.running.home} is the service's.")
    say(f"serving {playing.running.url} (interrupt to stop)")
    try:
        playing.running.wait()
    except KeyboardInterrupt:
        say("stopping")
