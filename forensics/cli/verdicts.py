"""``forensics verdicts``: what a validator would read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput, Exit, UsageError
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from rich.text import Text

    from attest.predicates.verdict import UidVerdict

    from ..client import Reading


def verdicts(
    context: typer.Context,
    netuid: Annotated[int, typer.Option(min=0, max=65_535, help="Subnet.")],
    url: Annotated[
        str | None, typer.Option(help="Ask this service, as the client does; this home's own snapshot when absent.")
    ] = None,
    service_key: Annotated[
        str | None, typer.Option(help="Key of that service: name+id+base64; `GET /v1/service` shows it as log_key.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="Chain, by name; the settings' when absent.")] = None,
    genesis: Annotated[str | None, typer.Option(help="Its genesis hash, when not built in.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Print the verdicts of a subnet as a validator would read them, verified like the client does.

    Exits 4 when there is nothing to go by (then every multiplier is 1), 3 when an answer came and was not believed.
    """
    home = Home(context.obj)
    network = network or home.settings.network
    genesis = home.settings.genesis if genesis is None else genesis
    if url is None:
        reading = _own(home, netuid, network, genesis)
    else:
        reading = _asked(home, url, service_key, netuid, network, genesis)
    if json:
        emit(document(reading))
    else:
        from rich.console import Console

        from ..report import print_lines

        print_lines(render(reading), Console(highlight=False))
    if reading.loud:
        say(f"verdicts: {reading.why}")
    if reading.refused:
        return Exit.BAD_INPUT
    return Exit.CLEAN if reading.snapshot is not None else Exit.UNAVAILABLE


def document(reading: Reading) -> dict[str, Any]:
    """A reading with every verdict, as signed: fractions are decimal text."""
    entries = () if reading.snapshot is None else reading.snapshot.verdicts.verdicts
    return reading.document() | {"verdicts": [entry.write() for entry in entries]}


def render(reading: Reading) -> Iterator[Text]:
    """A reading as a table."""
    from rich.text import Text

    yield Text(reading.why)
    if reading.snapshot is None:
        return
    yield Text(f"{'uid':>5}  {'hotkey':<48}  {'revision':<10}  {'status':<9}  {'mult':<6}  reasons", style="bold")
    for entry in sorted(reading.snapshot.verdicts.verdicts, key=lambda entry: entry.uid):
        style = {"rejected": "red", "penalised": "red", "held": "yellow", "watch": "yellow"}.get(str(entry.status), "")
        yield Text(_line(entry), style=style)


def _line(entry: UidVerdict) -> str:
    reasons = ", ".join(
        reason.code if reason.of is None else f"{reason.code} of {reason.of.hotkey}" for reason in entry.reasons
    )
    head = f"{entry.uid:>5}  {entry.hotkey:<48}  {(entry.revision or '-')[:10]:<10}  {entry.status:<9}"
    return f"{head}  {entry.multiplier[:6]:<6}  {reasons}".rstrip()


def _own(home: Home, netuid: int, network: str, genesis: str) -> Reading:
    """The newest snapshot of this home, verified with its own key like anybody else's."""
    from ..client import Refused, Trust, verify
    from ..client.core import Held, reading
    from ..keys import Keys
    from ..place import genesis_of, now
    from ..snapshots import Shelf

    key = Keys.of(home.settings).known_public()
    if key is None:
        return reading(Held(), now(), confirmed=False)
    trust = Trust.of(key, netuid=netuid, network=network, genesis=genesis)
    stored = Shelf(home.engine, genesis_of(network, genesis)).newest(netuid)
    if stored is None:
        return reading(Held(), now(), confirmed=False)
    try:
        snapshot = verify(stored.envelope, trust, where=f"snapshot {stored.sequence}")
    except Refused as refusal:
        raise BadInput("the stored snapshot is not believed", where=str(home.settings.home), got=str(refusal)) from None
    return reading(Held(snapshot), now(), confirmed=True)


def _asked(home: Home, url: str, key: str | None, netuid: int, network: str, genesis: str) -> Reading:
    from ..client import VerdictClient

    if key is None:
        raise UsageError("whose verdicts?", where="--service-key", expected="name+id+base64")
    cache = home.settings.home / "verdicts"
    return VerdictClient(url, key, netuid=netuid, network=network, genesis=genesis, cache=cache).read()
