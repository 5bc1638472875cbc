"""``forensics verdicts``: what a validator would read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput, Exit, ForensicsError, Unavailable, UsageError
from ..text import printable
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from attest.log.note import NoteKey
    from attest.predicates.verdict import UidVerdict

    from ..client import Problem, Snapshot
    from ..settings import Settings

_COLUMNS = "{:>4}  {:<48}  {:<10} {:>10}  {}"


@dataclass(frozen=True)
class _Read:
    """A verified snapshot, and what is to be said with it."""

    snapshot: Snapshot
    state: str
    notes: tuple[str, ...] = ()


def verdicts(
    context: typer.Context,
    netuid: Annotated[
        int | None, typer.Option(help="Subnet; that of the settings when absent.", min=0, max=65535)
    ] = None,
    url: Annotated[str | None, typer.Option(help="A service; this home itself when absent.")] = None,
    trust: Annotated[
        str | None, typer.Option(help="The service's key, name+id+base64; pinned at first contact when absent.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Print the newest verdicts of a subnet, verified as a validator's client does it.

    Exits 3 when an answer came that cannot be believed, 4 when there is nothing to go by; a validator then takes every
    multiplier for 1.
    """
    home = Home(context.obj)
    chosen = home.settings.netuid if netuid is None else netuid
    if chosen is None:
        raise UsageError("for which subnet?", where="--netuid", remedy="Give it, or set FORENSICS_NETUID.")
    read = _own(home, chosen) if url is None else _remote(home.settings, url, trust, chosen)
    for note in read.notes:
        say(f"note: {note}")
    if json:
        emit({"state": read.state, "digest": read.snapshot.digest, **_said(read.snapshot)})
    else:
        _print(read)
    return Exit.CLEAN


def _own(home: Home, netuid: int) -> _Read:
    """The newest of this home, verified with its own key."""
    from ..client import Refused, Trust, verify
    from ..keys import Keys
    from ..place import now, settings_genesis
    from ..snapshots import Shelf

    genesis = settings_genesis(home.settings)
    stored = Shelf(home.engine, genesis).newest(netuid)
    key = Keys.of(home.settings).known_public()
    if stored is None or key is None:
        raise Unavailable("no snapshot of this subnet was published", where=f"netuid {netuid}")
    try:
        snapshot = verify(stored.envelope, Trust.of(key, netuid=netuid, genesis=genesis))
    except Refused as error:
        raise BadInput(str(error), where="the home's newest snapshot") from None
    expired = snapshot.expires_at <= now()
    notes = ("expired: a validator takes every multiplier for 1",) if expired else ()
    return _Read(snapshot, "expired" if expired else "fresh", notes)


def _remote(settings: Settings, url: str, key: str | None, netuid: int) -> _Read:
    """The newest of a service, through the client that validators use."""
    from ..client import VerdictClient
    from ..place import settings_genesis

    client = VerdictClient(url, key or _pinned(settings, url), netuid=netuid, genesis=settings_genesis(settings))
    reading = client.read()
    if reading.snapshot is None:
        raise _nothing(reading.problems, url)
    return _Read(reading.snapshot, str(reading.state), tuple(str(problem) for problem in reading.problems))


def _nothing(problems: Iterable[Problem], url: str) -> ForensicsError:
    """Why there is nothing to go by."""
    from ..client.codes import REFUSALS

    found = list(problems)
    text = "; ".join(str(problem) for problem in found) or "the service has no snapshot"
    kind = BadInput if any(problem.code in REFUSALS for problem in found) else Unavailable
    return kind(text, where=url, remedy="A validator takes every multiplier for 1.")


def _pinned(settings: Settings, url: str) -> NoteKey:
    """The key of a service that was met before, or is met now."""
    from ..claims.remote import Remote
    from ..trust import Pins

    key = Remote(url).identity().log_key
    if Pins.of(settings).pin(key):
        say(f"note: first contact with {key.name}; its key is pinned: {key}")
    return key


def _said(snapshot: Snapshot) -> dict[str, Any]:
    """What was signed, without the context that says by whom."""
    found: dict[str, Any] = dict(snapshot.verdicts.write())
    found.pop("context")
    return found


def _print(read: _Read) -> None:
    said = read.snapshot.verdicts
    print(
        printable(
            f"subnet {said.netuid} at block {said.block}, snapshot {said.sequence}, {read.state}, "
            f"until {said.expires_at}, policy {said.policy.name} {said.policy.version}"
        )
    )
    print(_COLUMNS.format("uid", "hotkey", "status", "multiplier", "why"))
    for verdict in sorted(said.verdicts, key=lambda verdict: verdict.uid):
        print(
            printable(_COLUMNS.format(verdict.uid, verdict.hotkey, verdict.status, verdict.multiplier, _why(verdict)))
        )


def _why(verdict: UidVerdict) -> str:
    reasons = [f"{reason.code} of {reason.of.hotkey}" if reason.of else reason.code for reason in verdict.reasons]
    parents = [f"{parent.relation} {parent.digest[:19]}" for parent in verdict.parents]
    return ", ".join([*reasons, *parents])
