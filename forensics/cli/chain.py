"""``forensics chain``: the subnet as it stands on chain, read into the database, and how far it was read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput, ChainUnavailable, Exit, Unavailable, UsageError
from ..text import printable
from .console import emit, say
from .home import Home
from .output import check_file, write_file

if TYPE_CHECKING:
    from ..chain.claims import Claim
    from ..chain.observed import SubnetReader
    from ..chain.recorded_subnet import RecordedSubnet, Recorder
    from ..chain.subnet import Subnet
    from ..chain.sync import Gap, Synced, Syncer

app = typer.Typer(help="The subnet as it stands on chain.", no_args_is_help=True, rich_markup_mode=None)
NETUID = typer.Option(help="Subnet number; the setting `netuid` when absent.", min=0, max=0xFFFF)
GENESIS = typer.Option(help="Genesis hash, for networks whose hash is not built in.")
LONGEST_WAIT = 60.0  # seconds between two tries of a node that is away
BLOCK_SECONDS = 12


@app.command("sync")
def sync(
    context: typer.Context,
    netuid: Annotated[int | None, NETUID] = None,
    network: Annotated[
        str | None, typer.Option(help="finney, test, local, or a ws:// or wss:// endpoint; the setting when absent.")
    ] = None,
    genesis: Annotated[str | None, GENESIS] = None,
    recording: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Play a recorded subnet instead of asking a node.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep what the node answers in this file.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Go on with every new final block, or stop at the newest.")
    ] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.0, max=3600.0)] = BLOCK_SECONDS,
    transfers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write transfers to this table (CSV or .parquet) instead.")
    ] = None,
    from_block: Annotated[int | None, typer.Option(help="First block of --transfers.", min=0)] = None,
    to_block: Annotated[int | None, typer.Option(help="Last block of --transfers.", min=0)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Read a subnet into the database: neurons, commitments, reveals and hotkey swaps, at final blocks only.

    Safe to repeat, to interrupt and to run twice at once. What cannot be read any more is stored as a gap.
    """
    if follow and json:
        raise UsageError("--json prints one document, and --follow never ends", where="--json")
    for path, option in ((record, "--record"), (transfers, "--transfers")):
        if path is not None:
            check_file(path, option=option)
    home = Home(context.obj)
    if transfers is not None:
        return _transfers(home, network, transfers, from_block, to_block, as_json=json)
    if from_block is not None or to_block is not None:
        raise UsageError("a range of blocks is for --transfers", where="--from-block")
    with _opened(home, network, recording) as (reader, where):
        number = _netuid(home, netuid, getattr(getattr(reader, "recording", None), "netuid", None))
        chain = _genesis(home, network, genesis, getattr(getattr(reader, "recording", None), "genesis", ""))
        return _sync(home, reader, chain, number, where, record, interval if follow else None, as_json=json)


@app.command("status")
def status(
    context: typer.Context,
    netuid: Annotated[int | None, NETUID] = None,
    genesis: Annotated[str | None, GENESIS] = None,
    max_lag: Annotated[
        int | None, typer.Option(help="Exit 4 when the last look is older than this many seconds.", min=1)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Say how far a subnet was read, what was missed, and what each hotkey's commitment comes to."""
    from ..chain.subnet import Subnet

    home = Home(context.obj)
    subnet = Subnet(home.engine, _genesis(home, None, genesis), _netuid(home, netuid))
    document = _status(home, subnet)
    if json:
        emit(document)
    else:
        _print_status(document)
    late = max_lag is not None and (document["age_seconds"] is None or document["age_seconds"] > max_lag)
    return Exit.UNAVAILABLE if late else Exit.CLEAN


def _sync(
    home: Home,
    reader: SubnetReader,
    genesis: str,
    netuid: int,
    where: str,
    record: Path | None,
    interval: float | None,
    *,
    as_json: bool,
) -> int:
    from ..chain.recorded_subnet import RecordedSubnet, Recorder
    from ..chain.sync import REACH, STRIDE, Syncer

    played = reader if isinstance(reader, RecordedSubnet) else None
    recorder = None if record is None else Recorder(reader)
    span = played.recording.moments[-1].number if played else 0
    syncer = Syncer(home.engine, recorder or reader, genesis, netuid, stride=max(STRIDE, span), reach=max(REACH, span))
    total: list[Synced] = []
    try:
        for synced in _steps(syncer, played, where, interval):
            total.append(synced)
            _say(synced, quiet=as_json)
    finally:
        if recorder is not None and record is not None:
            _keep(recorder, record)
    if as_json:
        emit(_totals(total, genesis, netuid))
    return Exit.CLEAN


def _steps(syncer: Syncer, played: RecordedSubnet | None, where: str, interval: float | None) -> Iterator[Synced]:
    """Steps up to the newest final block, then, when following, of every one after it."""
    wait = interval or 0.0
    while True:
        try:
            with counting(f"reading {where}") as bar:
                yield from syncer.until_current(bar)
            wait = interval or 0.0
        except ChainUnavailable as error:
            if interval is None:
                raise
            wait = min(max(wait * 2, 1.0), LONGEST_WAIT)
            say(f"late: {error}")
        if played is not None:
            if not played.advance():
                return
        elif interval is None:
            return
        time.sleep(wait if interval is not None else 0)


@contextmanager
def _opened(home: Home, network: str | None, recording: Path | None) -> Iterator[tuple[SubnetReader, str]]:
    """The chain to ask, and how to call it."""
    from ..chain.node import NodeReader
    from ..chain.recorded_subnet import MAX_BYTES, RecordedSubnet
    from ..chain.subtensor import Subtensor

    if recording is not None:
        if network is not None:
            raise UsageError("either a recording or a network", where="--recording")
        try:
            with recording.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Unavailable("cannot read", where=str(recording), got=error.strerror or str(error)) from None
        yield RecordedSubnet.parse(raw), recording.name
        return
    name = network or home.settings.network
    node = Subtensor(name)
    try:
        yield NodeReader(node), name
    finally:
        node.close()


def _transfers(
    home: Home, network: str | None, path: Path, first: int | None, last: int | None, *, as_json: bool
) -> int:
    from ..chain import transfers
    from ..chain.node import NodeReader
    from ..chain.subtensor import Subtensor

    if first is None or last is None:
        raise UsageError("--transfers needs a range", where="--from-block, --to-block")
    node = Subtensor(network or home.settings.network)
    try:
        with counting("reading blocks") as bar:
            rows = transfers.write(path, transfers.collect(NodeReader(node), first, last, bar))
    finally:
        node.close()
    say(f"transfers: {rows} rows to {path}")
    if as_json:
        emit({"transfers": str(path), "rows": rows, "from_block": first, "to_block": last})
    return Exit.CLEAN


def _keep(recorder: Recorder, path: Path) -> None:
    from ..chain.recorded_subnet import encode

    recording = recorder.recording()
    if recording is None:
        say("note: nothing was read, so nothing is recorded")
        return
    write_file(path, encode(recording), option="--record")
    say(f"recorded: {len(recording.moments)} moments to {path}")


def _netuid(home: Home, given: int | None, recorded: int | None = None) -> int:
    found = next((n for n in (given, recorded, home.settings.netuid) if n is not None), None)
    if found is None:
        raise UsageError("which subnet?", where="--netuid", remedy="Give --netuid, or set FORENSICS_NETUID.")
    if given is not None and recorded is not None and given != recorded:
        raise BadInput("the recording is of another subnet", where="--recording", got=recorded, expected=given)
    return found


def _genesis(home: Home, network: str | None, given: str | None, recorded: str = "") -> str:
    from ..place import genesis_of

    explicit = given or home.settings.genesis
    if recorded and not explicit:
        return recorded
    name = network if network is not None and "://" not in network else home.settings.network
    return genesis_of(name, explicit)


def _status(home: Home, subnet: Subnet) -> dict[str, Any]:
    from ..chain.claims import claims
    from ..chain.grammar import Rules
    from ..place import now

    progress, neurons, commits, swaps = subnet.progress(), subnet.neurons(), subnet.commits(), subnet.swaps()
    found = claims(neurons, commits, swaps, Rules.of(home.settings.commit_rules))
    age = None if progress is None else max((now() - progress.synced_at).total_seconds(), 0.0)
    lag = None if progress is None or age is None else max(progress.head - progress.block, 0) + int(age / BLOCK_SECONDS)
    standing: dict[str, int] = {}
    for claim in found:
        standing[str(claim.standing)] = standing.get(str(claim.standing), 0) + 1
    return {
        "genesis": subnet.genesis,
        "netuid": subnet.netuid,
        "started": None if progress is None else progress.started,
        "block": None if progress is None else progress.block,
        "head": None if progress is None else progress.head,
        "synced_at": None if progress is None else progress.synced_at.isoformat(),
        "age_seconds": None if age is None else round(age, 1),
        "lag_blocks": lag,
        "neurons": len(neurons),
        "validators": sum(neuron.permit for neuron in neurons),
        "commits": len(commits),
        "swaps": len(swaps),
        "gaps": [_gap(gap) for gap in subnet.gaps()],
        "standing": standing,
        "hotkeys": [_claim(claim) for claim in found],
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "uid": claim.uid,
        "hotkey": claim.hotkey,
        "standing": str(claim.standing),
        "reason": claim.reason,
        "block": None if claim.commit is None else claim.commit.block,
        "extrinsic": None if claim.commit is None else claim.commit.extrinsic,
        "repo": None if claim.named is None else claim.named.repo,
        "revision": None if claim.named is None else claim.named.revision,
    }


def _print_status(document: dict[str, Any]) -> None:
    if document["block"] is None:
        print(f"netuid {document['netuid']}: never read. Run `forensics chain sync --netuid {document['netuid']}`.")
        return
    print(f"netuid              {document['netuid']}")
    print(f"read to block       {document['block']:,} (from {document['started']:,} on)")
    print(f"behind the chain    about {document['lag_blocks']:,} blocks; last look {document['age_seconds']:.0f} s ago")
    print(f"neurons             {document['neurons']} ({document['validators']} validators)")
    print(f"commitments         {document['commits']}; hotkey swaps {document['swaps']}")
    print("standing            " + ", ".join(f"{name} {count}" for name, count in sorted(document["standing"].items())))
    for gap in document["gaps"]:
        lost = f"; reveals may be lost of {len(gap['hotkeys'])} hotkeys" if gap["hotkeys"] else ""
        print(printable(f"gap                 blocks {gap['first']:,} to {gap['last']:,}: {gap['reason']}{lost}"))
    for claim in document["hotkeys"]:
        if claim["reason"]:
            print(printable(f"uid {claim['uid']:<16}{claim['hotkey']} {claim['reason']}"))


def _say(synced: Synced, *, quiet: bool) -> None:
    if synced.gap is not None:
        say(f"gap: blocks {synced.gap.first} to {synced.gap.last} were not read: {synced.gap.reason}")
    if not quiet:
        say(
            f"block {synced.block}: {synced.commits_new} new commitments, {synced.neurons_changed} uids changed"
            + (f", {synced.swaps_new} swaps" if synced.swaps_new else "")
            + (f", {synced.behind} blocks to go" if synced.behind else "")
        )


def _totals(steps: list[Synced], genesis: str, netuid: int) -> dict[str, Any]:
    last = steps[-1]
    return {
        "genesis": genesis,
        "netuid": netuid,
        "block": last.block,
        "head": last.head,
        "steps": len(steps),
        "commits_new": sum(step.commits_new for step in steps),
        "neurons_changed": sum(step.neurons_changed for step in steps),
        "swaps_new": sum(step.swaps_new for step in steps),
        "gaps": [_gap(step.gap) for step in steps if step.gap is not None],
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {"first": gap.first, "last": gap.last, "reason": gap.reason, "hotkeys": list(gap.hotkeys)}


@contextmanager
def counting(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar of blocks on stderr when that is a terminal; None otherwise."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(printable(title), total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
