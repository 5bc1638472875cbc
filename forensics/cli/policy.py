"""``forensics policy``: show a policy, check a file, and try one on history before it is in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Exit
from ..text import printable
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from ..policy import Policy
    from ..verdicts.history import Change, Tried

DEFAULT = "default"
SHOWN = 200
app = typer.Typer(help="What findings cost: show, check, and try on history.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
File = "Policy file, or `default` for the one that is shipped."


@app.command()
def show(
    context: typer.Context,
    policy: Annotated[str, typer.Argument(metavar="[POLICY]", help=f"{File} The one in force when not given.")] = "",
    json: Json = False,
) -> int:
    """Print a policy as it is understood, with its digest."""
    found = _policy(policy, Home(context.obj))
    if json:
        emit({"digest": found.digest, "policy": found.document()})
        return Exit.CLEAN
    from ..verdicts.history import flat

    print(f"{found.name} version {found.version}")
    print(found.digest)
    for key, value in flat(found.document()):
        print(printable(f"  {key} = {value}"))
    return Exit.CLEAN


@app.command()
def check(
    context: typer.Context,
    policy: Annotated[str, typer.Argument(metavar="POLICY", help=File)],
    json: Json = False,
) -> int:
    """Check a policy file: known keys, values in range, nothing that loosens a hard rule.

    Exits 3 and names the key when it is refused.
    """
    found = _policy(policy, Home(context.obj))
    if json:
        emit({"valid": True, "name": found.name, "version": found.version, "digest": found.digest})
    else:
        print(f"valid: {found.name} version {found.version}, {found.digest}")
    return Exit.CLEAN


@app.command()
def diff(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help=File)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=File)],
    netuid: Annotated[int | None, typer.Option(help="Only this subnet.", min=0, max=0xFFFF)] = None,
    json: Json = False,
) -> int:
    """Judge everything on record by two policies and show where they differ. Nothing is written.

    Exits 1 when a verdict would change.
    """
    from ..verdicts.history import attempt

    home = Home(context.obj)
    before, after = _policy(old, home), _policy(new, home)
    tried = attempt(home.engine, before, after, netuid=netuid)
    if json:
        emit(_document(before, after, tried))
    else:
        _print(tried)
    return Exit.FINDING if tried.changes else Exit.CLEAN


def _policy(name: str, home: Home) -> Policy:
    from ..policy import default, load

    if name == DEFAULT:
        return default()
    if name:
        return load(Path(name))
    return load(home.settings.policy) if home.settings.policy is not None else default()


def _document(before: Policy, after: Policy, tried: Tried) -> dict[str, Any]:
    return {
        "old": {"name": before.name, "version": before.version, "digest": before.digest},
        "new": {"name": after.name, "version": after.version, "digest": after.digest},
        "keys": {key: {"old": old, "new": new} for key, (old, new) in tried.keys.items()},
        "judged": tried.judged,
        "changed": len(tried.changes),
        "changes": [change.document() for change in tried.changes],
    }


def _print(tried: Tried) -> None:
    for key, (old, new) in tried.keys.items():
        print(printable(f"{key}: {_or_none(old)} -> {_or_none(new)}"))
    for change in tried.changes[:SHOWN]:
        print(printable(_line(change)))
    if len(tried.changes) > SHOWN:
        say(f"note: {len(tried.changes) - SHOWN} more; --json prints all")
    print(f"{len(tried.changes)} of {tried.judged} submissions would be judged otherwise")


def _line(change: Change) -> str:
    """One submission on one line: hotkeys are identities, so they are never cut."""
    subject, before, after = change.subject, change.before, change.after
    reasons = dict.fromkeys((*after.reasons[:2], *before.reasons[:2]))
    words = [
        f"netuid {subject.netuid}",
        f"block {subject.block}",
        subject.hotkey,
        subject.revision[:8] or "-",
        f"{before.status} {before.multiplier} -> {after.status} {after.multiplier}",
        f"({', '.join(reasons)})" if reasons else "",
        "" if change.newest else "(an older revision)",
    ]
    return "  ".join(word for word in words if word)


def _or_none(value: object) -> str:
    return "(none)" if value is None else str(value)
