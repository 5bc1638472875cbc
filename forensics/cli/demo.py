"""``forensics demo``: a small real subnet, played through the commands of this program."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from .console import say

WIDTH = 124
"""Columns of the picture, and of the table where stdout is no terminal."""


def demo(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Exit after printing, and leave nothing behind.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Also draw what is printed, as SVG.", dir_okay=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
) -> int:
    """Train a subnet of miners, judge them in commit order, and mark the answers against the truth.

    Exits 0 when nobody honest was accused and no copy was missed, 1 otherwise.
    """
    began = perf_counter()
    if once:
        folder = Path(tempfile.mkdtemp(prefix="forensics-demo-"))
    else:
        from forensics.settings import load

        folder = load(**{k: v for k, v in (context.obj or {}).items() if k == "home"}).home / "demo"
    try:
        return _play(folder, began=began, picture=picture, as_json=as_json, keep=not once)
    finally:
        if once:
            shutil.rmtree(folder, ignore_errors=True)


def _play(folder: Path, *, began: float, picture: Path | None, as_json: bool, keep: bool) -> int:
    from rich.console import Console

    from forensics.demo.play import play, prepare
    from forensics.demo.table import document, draw, show

    say("training the subnet's honest models (half a minute to two minutes on two cores)")
    ready = prepare(folder, say=say)
    judged = []
    for one in play(ready, home=folder / "home"):
        say(f"  {one.miner.name}: {one.answer.relation} ({one.answer.seconds:.1f} s)")
        judged.append(one)
    seconds = perf_counter() - began
    if as_json:
        from .console import emit

        emit(document(judged, seconds=seconds))
    else:
        show(judged, seconds=seconds, console=Console(width=None if sys.stdout.isatty() else WIDTH))
    if picture is not None:
        picture.write_text(draw(judged, seconds=seconds, width=WIDTH), encoding="utf-8")
    if keep:
        say(f"The models are in {folder / 'models'}; the registry is FORENSICS_HOME={folder / 'home'}. Try:")
        say(f"  forensics compare {folder / 'models' / 'gail'} {folder / 'models' / 'ada'}")
    return int(any(one.accused or one.missed for one in judged))
