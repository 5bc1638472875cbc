"""``forensics overfit``: who trained on exposed items, and which validator leaked hidden ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Exit, UsageError
from . import attest_options as options
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from detectors.overfit.report import Report
    from detectors.overfit.results import Results, Row

    from ..results.store import ResultStore

KEY_DIGITS = 64


def overfit(
    context: typer.Context,
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS",
            help="CSV or Parquet: epoch,hotkey,environment,item,exposed,score[,validator][,cluster].",
        ),
    ],
    clusters: Annotated[
        Path | None, typer.Option(help="Table hotkey,cluster (as `forensics sybil` writes it): a cluster counts once.")
    ] = None,
    randomised: Annotated[
        bool, typer.Option("--randomised", help="Items were exposed by lot: the exact test holds.")
    ] = False,
    exposure_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="The lot's key: exposure is drawn again and compared.")
    ] = None,
    level: Annotated[
        float, typer.Option(min=1e-9, max=0.5, help="False discovery rate among those that are flagged.")
    ] = 0.01,
    once: Annotated[
        bool,
        typer.Option("--once", help="Several epochs, judged this once: p-values, which are stronger than e-values."),
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Keep the rows in the home, and judge them with all that was kept so of this subnet; what validators "
            "reported over HTTP is kept apart, by reporter.",
        ),
    ] = False,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = "default",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Say who does better on exposed items than fresh ones of the same difficulty explain.

    Also names the validator whose own items became known.
    Exits 1 when a miner or validator is named.
    """
    from detectors.errors import MalformedFacts

    from ..results import overfit as analysis
    from ..results.store import ResultStore

    key = _key(exposure_key)
    try:
        home = Home(context.obj)
        place = options.place(home.settings, netuid, network, genesis, competition) if record else None
        rows = _read(results, clusters, None if place is None else ResultStore(home.engine, place))
        report = analysis.analyse(rows, level=level, randomised=randomised, key=key, once=once)
    except MalformedFacts as error:
        from ..results.table import in_file

        raise in_file(error, results) from None
    if json:
        emit(analysis.document(report))
    else:
        _print(report)
    return Exit.FINDING if report.flagged or report.leaking else Exit.CLEAN


def _read(path: Path, clusters: Path | None, store: ResultStore | None) -> Results:
    from detectors.overfit.results import from_rows

    from ..results.table import ResultsFile, read_clusters

    file = ResultsFile(path)
    if file.unknown:
        say("note: columns that are not read: " + ", ".join(file.unknown))
    rows: list[Row] = list(file.rows())
    groups = file.clusters | (read_clusters(clusters) if clusters is not None else {})
    found = from_rows(rows, clusters=groups)
    if store is None:
        return found
    kept = store.add(found)
    say(f"kept: {kept.scores} new scores" if kept.new else "kept: these rows were known")
    return from_rows(store.rows(), clusters=groups)


def _key(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(text) != KEY_DIGITS or len(key) * 2 != KEY_DIGITS:
        raise UsageError("not a key", where="--exposure-key", expected=f"{KEY_DIGITS} hex digits")
    return key


def _print(report: Report) -> None:
    from rich.console import Console

    from ..report import print_lines
    from ..results.overfit import render

    print_lines(render(report), Console(highlight=False))
