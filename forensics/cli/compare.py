"""``forensics compare``: what a candidate is to a reference."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Exit, UsageError
from . import sources
from .console import emit, say
from .home import Home
from .output import check_file, write_file

if TYPE_CHECKING:
    from fingerprint.compare import Comparison

    from ..evidence import Inputs
    from ..report import Named
    from .sources import Opened


class DepthOption(StrEnum):
    """``--depth``; the same words as ``fingerprint.compare.Depth``, which help must not import."""

    SKETCH = "sketch"
    FULL = "full"


def compare(
    context: typer.Context,
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="The model in question: checkpoint or fingerprint file.")
    ],
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="What it is held against: the same, or known:DIGEST.")
    ],
    base: Annotated[str | None, typer.Option(help="A public model both may descend from.")] = None,
    depth: Annotated[
        DepthOption | None, typer.Option(help="Fingerprints alone, or both checkpoints (default where at hand).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    evidence: Annotated[Path | None, typer.Option(help="Write an evidence bundle to this file.")] = None,
) -> int:
    """Say what CANDIDATE is to REFERENCE.

    Exits 1 when it is a copy.
    """
    if evidence is not None:
        check_file(evidence, option="--evidence")
    home = Home(context.obj)
    began = time.perf_counter()
    with ExitStack() as stack:
        sides = [stack.enter_context(sources.opened(text, home)) for text in (candidate, reference)]
        third = stack.enter_context(sources.opened(base, home)) if base is not None else None
        comparison, inputs = _run(sides[0], sides[1], third, depth)
        seconds = time.perf_counter() - began
        if evidence is not None:
            save_evidence(comparison, inputs, evidence)
        if json:
            emit(comparison.as_json() | {"seconds": round(seconds, 3)})
        else:
            show(comparison, named(sides[0]), named(sides[1]), seconds)
    return Exit.FINDING if comparison.copy else Exit.CLEAN


def _run(
    candidate: Opened, reference: Opened, base: Opened | None, depth: DepthOption | None
) -> tuple[Comparison, Inputs]:
    import fingerprint.compare as comparing

    from ..evidence import Inputs

    at_hand = candidate.checkpoint is not None and reference.checkpoint is not None
    if depth is DepthOption.FULL and not at_hand:
        missing = reference if candidate.checkpoint is not None else candidate
        raise UsageError(
            "full depth reads both checkpoints", where="--depth", got=f"only a fingerprint of {missing.text}"
        )
    if depth is None and not at_hand:
        say("note: weights of one side are not at hand, so this is sketch depth")
    chosen = comparing.Depth.FULL if at_hand and depth is not DepthOption.SKETCH else comparing.Depth.SKETCH
    if chosen is comparing.Depth.FULL and base is not None and base.checkpoint is None:
        say("note: only a fingerprint of the base is at hand; at full depth it cannot be used")
    strip = chosen is comparing.Depth.SKETCH
    inputs = Inputs(
        candidate=(candidate.without_weights() if strip else candidate).source(),
        reference=(reference.without_weights() if strip else reference).source(),
        base=None if base is None else (base.without_weights() if strip else base).source(),
        calibration=comparing.load_calibration(),
    )
    return inputs.compare(chosen), inputs


def save_evidence(comparison: Comparison, inputs: Inputs, path: Path) -> None:
    """Write the bundle of a comparison and say what its digest is."""
    from .. import evidence
    from ..store.blobs import digest_of

    data = evidence.make(comparison, inputs)
    write_file(path, data, option="--evidence")
    say(f"evidence: {path} {digest_of(data)}")


def named(side: Opened) -> Named:
    """How the report names a side."""
    from ..report import Named

    return Named(side.text, side.fingerprint.content_root, side.fingerprint.parameters, side.known)


def show(comparison: Comparison, candidate: Named, reference: Named, seconds: float) -> None:
    """Print the report on stdout."""
    from rich.console import Console

    from ..report import print_lines, render

    lines = render(comparison, candidate=candidate, reference=reference, seconds=seconds)
    print_lines(lines, Console(file=sys.stdout))
