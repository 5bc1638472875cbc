"""``forensics replay``: recompute a result from its evidence."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fingerprint.errors import CheckpointUnavailable

from ..bundle import BUNDLE_LIMIT
from ..errors import EvidenceError, Exit
from . import sources
from .compare import show
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from fingerprint.checkpoint.interface import Checkpoint


def replay(
    context: typer.Context,
    evidence: Annotated[Path, typer.Argument(metavar="EVIDENCE", help="Evidence bundle.")],
    candidate: Annotated[str | None, typer.Option(help="The candidate's weights (full-depth results).")] = None,
    reference: Annotated[str | None, typer.Option(help="The reference's weights (full-depth results).")] = None,
    base: Annotated[str | None, typer.Option(help="The base's weights (full-depth results).")] = None,
    known: Annotated[
        list[str] | None, typer.Option(help="Weights of a further known model; may be given several times.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Recompute a result from its evidence bundle.

    Exits as the result did when it comes out the same to the byte, and 3 with what differs when it does not.
    """
    data = _read(evidence)
    home, began = Home(context.obj), time.perf_counter()
    given = {"candidate": candidate, "reference": reference, "base": base}
    with ExitStack() as stack:

        def opened(text: str) -> Checkpoint:
            return stack.enter_context(sources.checkpoint(sources.need_checkpoint(text, home)))

        from .. import evidence as bundles
        from ..report import Named

        replayed = bundles.replay(
            data,
            where=str(evidence),
            checkpoints={side: opened(text) for side, text in given.items() if text is not None},
            known=[opened(text) for text in known or []],
        )
    seconds = time.perf_counter() - began
    comparison = replayed.comparison
    if not replayed.shipped_calibration:
        say("note: the bundle brings a calibration of its own; the numbers are reproducible, but not ours")
    if json:
        emit(
            comparison.as_json()
            | {
                "seconds": round(seconds, 3),
                "replayed": True,
                "shipped_calibration": replayed.shipped_calibration,
                "versions": dict(replayed.versions),
            }
        )
    else:
        print("replayed: the same result, byte for byte")
        show(
            comparison,
            Named(candidate or "candidate", comparison.candidate),
            Named(reference or "reference", comparison.reference),
            seconds,
        )
    return Exit.FINDING if comparison.copy else Exit.CLEAN


def _read(path: Path) -> bytes:
    try:
        if path.is_file() and path.stat().st_size > BUNDLE_LIMIT:
            raise EvidenceError(
                "bundle is too large",
                where=str(path),
                got=path.stat().st_size,
                expected=f"at most {BUNDLE_LIMIT} bytes",
            )
        return path.read_bytes()
    except OSError as error:
        raise CheckpointUnavailable("cannot read evidence", where=str(path), got=error.strerror or str(error)) from None
