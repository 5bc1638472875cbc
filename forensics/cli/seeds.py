"""``forensics seeds``: hidden seeds of an epoch, committed before, revealed after, verified by anyone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..text import printable
from . import attest_options as options
from . import seeds_parts as parts
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from ..epochs.rotation import Rotation

app = typer.Typer(help="Hidden seeds of an epoch.", no_args_is_help=True, rich_markup_mode=None)

Chain = Annotated[
    str | None,
    typer.Option(
        metavar="CHAIN",
        help="Network, ws:// endpoint, or a rehearsal's chain file; the settings' network when absent.",
    ),
]
Wallet = Annotated[
    str | None, typer.Option(help="Wallet whose hotkey anchors, NAME/HOTKEY; give the log a hotkey of its own.")
]
Beacon = Annotated[
    list[str] | None,
    typer.Option(metavar="URL|FILE", help="A drand relay, may be repeated; or one file of their answers."),
]
RehearsalKey = Annotated[
    str | None, typer.Option(help="Public key of a drand network that is not quicknet; proves nothing.", hidden=True)
]
LostKey = Annotated[
    bool,
    typer.Option("--lost-key", help="Go on though FORENSICS_SEED_KEY does not open the sealed secrets."),
]
Out = Annotated[Path | None, typer.Option(help="Folder for the public files, epoch-N.json.")]
DAY = 28_800  # rounds of three seconds


@app.command("commit")
def commit(
    context: typer.Context,
    items: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=COMMON[+TRACERS]",
            help="Items of an environment that all validators get, and those that each gets alone; may be repeated. "
            f"Where no tracers are named, environments share {parts.TRACERS} for each validator.",
        ),
    ],
    generator: Annotated[str, typer.Option(help="Digest of the task generators (sha256:...), or a file of them.")],
    count: Annotated[int, typer.Option(help="How many epochs to commit ahead under one root.")] = 8,
    first: Annotated[
        int | None, typer.Option(help="Number of the first; the next free one when absent.", min=0, max=parts.LARGEST)
    ] = None,
    mix_round: Annotated[
        int | None, typer.Option(help="Beacon round mixed into the first epoch.", min=1, max=parts.LARGEST)
    ] = None,
    every: Annotated[int, typer.Option(help="Rounds from one epoch's mixing to the next's.")] = DAY,
    window: Annotated[int, typer.Option(help="Rounds from mixing to the opening of the secret.")] = DAY // 2,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = "default",
    chain: Chain = None,
    wallet: Wallet = None,
    wallet_path: options.WalletPath = None,
    beacon: Beacon = None,
    rehearsal_key: RehearsalKey = None,
    out: Out = None,
    json: options.Json = False,
) -> int:
    """Draw the secrets of epochs ahead, seal them, and commit to them: logged, timelocked and anchored.

    With --mix-round, asking again changes nothing, and other parameters for a committed round or number are refused.
    Without it the next free numbers are committed each time.
    """
    from ..epochs.committing import Schedule
    from ..epochs.committing import commit as committing

    rotation = _rotation(
        context, (netuid, network, genesis, competition), chain, (wallet, wallet_path), beacon, rehearsal_key
    )
    rotation.check_key()
    moment = rotation.chain.moment()
    last = rotation.shelf.last()
    start = mix_round if mix_round is not None else parts.next_round(last, every, moment.time, rotation.world.network)
    done = committing(
        rotation.shelf,
        rotation.world,
        moment,
        plan=parts.plan(items),
        generator=parts.generator(generator),
        schedule=Schedule(start, every, window),
        count=count,
        first=first,
    )
    happened = rotation.advance()
    numbers = [epoch.number for epoch in done]
    return parts.report(rotation, numbers, happened, out=out, as_json=json)


@app.command("current")
def current(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="All epochs, past and ahead.")] = False,
    lost_key: LostKey = False,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = "default",
    chain: Chain = None,
    wallet: Wallet = None,
    wallet_path: options.WalletPath = None,
    beacon: Beacon = None,
    rehearsal_key: RehearsalKey = None,
    out: Out = None,
    json: options.Json = False,
) -> int:
    """Move every epoch on as far as chain and beacon allow, and show the one that is running.

    Safe to repeat at any time; an epoch that waits says for what.
    """
    rotation = _rotation(
        context, (netuid, network, genesis, competition), chain, (wallet, wallet_path), beacon, rehearsal_key
    )
    happened = parts.advance(rotation, check_key=_keyed(context) and not lost_key)
    epochs = rotation.shelf.epochs()
    shown = epochs if every else parts.running(epochs)
    return parts.report(rotation, [epoch.number for epoch in shown], happened, out=out, as_json=json)


@app.command("reveal")
def reveal(
    context: typer.Context,
    epoch: Annotated[int, typer.Argument(metavar="EPOCH", help="Number of the epoch.", min=0, max=parts.LARGEST)],
    lost_key: LostKey = False,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = "default",
    chain: Chain = None,
    wallet: Wallet = None,
    wallet_path: options.WalletPath = None,
    beacon: Beacon = None,
    rehearsal_key: RehearsalKey = None,
    out: Out = None,
    json: options.Json = False,
) -> int:
    """Reveal an epoch's secret and seed, once the beacon has published the round that opens it; never before."""
    from ..epochs.errors import EpochHidden
    from ..epochs.machine import State

    rotation = _rotation(
        context, (netuid, network, genesis, competition), chain, (wallet, wallet_path), beacon, rehearsal_key
    )
    happened = parts.advance(rotation, check_key=_keyed(context) and not lost_key)
    found = rotation.shelf.epoch(epoch)
    if found.state is not State.REVEALED:
        notes = [h.note for h in happened if h.epoch in (epoch, None) and h.note]
        raise EpochHidden(
            f"void: {found.void_reason}" if found.void_reason else "not to be revealed yet",
            where=f"epoch {epoch}",
            got="; ".join([str(found.state), *notes]),
            expected=f"round {found.open_round}, {parts.time_of(found.open_round, rotation.world.network)}",
        )
    return parts.report(rotation, [epoch], happened, out=out, as_json=json)


@app.command("verify")
def verify(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="EPOCH-FILE", help="An epoch's public file.")],
    trust: Annotated[
        str | None, typer.Option(help="The service's public key, name+id+base64; the file's own when absent.")
    ] = None,
    beacon: Annotated[
        list[str] | None,
        typer.Option(metavar="URL|FILE", help="Gives rounds that the file leaves out; none is asked otherwise."),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(
            metavar="CHAIN",
            help="Ask for the anchor's block: network, ws:// endpoint, a recording, or a rehearsal's chain file.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Judge lateness as of this time (2026-11-30T12:00:00Z); now.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="URL", help="Read this service's whole log for a second story of the epoch.")
    ] = None,
    rehearsal_key: RehearsalKey = None,
    items: Annotated[bool, typer.Option("--items", help="List the epoch's items once the seed is known.")] = False,
    json: options.Json = False,
) -> int:
    """Check an epoch link by link, offline, from its public file alone; the first broken link is named.

    Exits 1 when a fault of the operator is proven, 3 when the file does not hold together, and 4 when it leaves open
    what only the chain or the log can tell: an anchor and what a file leaves out are signed by nobody.
    """
    from ..epochs import confirming, verifying
    from ..epochs.opening import beacon_of, network_of

    network = network_of(rehearsal_key)
    source = None if not beacon else beacon_of(beacon, network=network)
    asked = None if chain is None else confirming.reader_of(chain)
    checked = verifying.check(
        verifying.read(file),
        trust=trust,
        network=network,
        now=parts.moment(at),
        source=source,
        chain=asked,
        log=None if log is None else parts.log_reader(log, Home(context.obj)),
    )
    document = verifying.document(checked, items=items)
    if json:
        emit(document)
    else:
        for line in verifying.lines(checked, items=items):
            print(printable(line))
    if asked is not None and confirming.is_rehearsal(asked):
        say("note: that chain is a rehearsal's file, it proves nothing to anybody else")
    if checked.pinned is False:
        say(f"note: checked with the key the file names itself; pin it with --trust '{checked.key}'")
    return verifying.exit_code(checked.report)


def _keyed(context: typer.Context) -> bool:
    """Whether a sealing key is set at all: without one, epochs can still be looked at and anchored."""
    return bool(Home(context.obj).settings.seed_key.get_secret_value())


def _rotation(
    context: typer.Context,
    where: tuple[int | None, str | None, str | None, str],
    chain: str | None,
    wallet: tuple[str | None, Path | None],
    beacon: list[str] | None,
    rehearsal_key: str | None,
) -> Rotation:
    from ..claims import wallets
    from ..epochs import opening

    home = Home(context.obj)
    network = opening.network_of(rehearsal_key)
    place = options.place(home.settings, *where)
    pair = None if wallet[0] is None else wallets.keypair(wallet[0], folder=wallet[1])
    asked = opening.chain_of(chain, home.settings, home.engine, netuid=place.netuid, pair=pair)
    source = opening.beacon_of(beacon or (), network=network)
    return opening.open_rotation(home.settings, home.engine, place, chain=asked, beacon=source, network=network)
