"""``forensics known``: the registry of known models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Exit
from ..known import address
from ..known.claim import Claim, KnownModel, Role, Submission
from ..text import printable
from . import hub, sources
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from ..known.registry import Added

app = typer.Typer(help="The registry of known models.", no_args_is_help=True, rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("add")
def add(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Checkpoint, fingerprint file, or owner/name@commit of the hub.")
    ],
    role: Annotated[
        Role | None, typer.Option(help="Whose it is: a public base, or a submission (default with --hotkey).")
    ] = None,
    hotkey: Annotated[str | None, typer.Option(help="Who claims it, an ss58 address.")] = None,
    block: Annotated[int | None, typer.Option(help="Block of the claim.")] = None,
    extrinsic: Annotated[int | None, typer.Option(help="Index of the extrinsic in that block.")] = None,
    repo: Annotated[str | None, typer.Option(help="Hub repository.")] = None,
    revision: Annotated[str | None, typer.Option(help="Commit in that repository, 40 hex digits.")] = None,
    label: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    json: Json = False,
) -> int:
    """Register a model, or another claim to one.

    The same claim twice is one claim.
    """
    reference = None if Path(path).expanduser().exists() else hub.parse(path)
    claim = Claim(
        role=role or (Role.SUBMISSION if hotkey else Role.BASE),
        label=label or "",
        hotkey=_hotkey(hotkey),
        block=block,
        extrinsic=extrinsic,
        repo=repo or (reference.repo if reference else None),
        revision=revision or (reference.revision if reference else None),
    ).checked()
    home = Home(context.obj)
    registry = home.registry  # a database that cannot be used should not cost a scan
    with sources.opened(path, home) as model:
        at = str(sources.path_of(path, home).resolve()) if model.checkpoint is not None else None
        added = registry.add(model.fingerprint, Claim(**{**vars(claim), "path": at}))
    emit(_added(added)) if json else _say_added(added)
    return Exit.CLEAN


@app.command("list")
def list_(
    context: typer.Context,
    role: Annotated[Role | None, typer.Option(help="Only bases, or only submissions.")] = None,
    withdrawn: Annotated[bool, typer.Option("--withdrawn", help="Also what nobody claims any more.")] = False,
    json: Json = False,
) -> int:
    """List known models in the order they were registered."""
    models = Home(context.obj).registry.models(withdrawn=withdrawn, role=role)
    if json:
        emit({"models": [model_document(m, withdrawn=withdrawn) for m in models]})
    else:
        _print_models(models)
    return Exit.CLEAN


@app.command("remove")
def remove(
    context: typer.Context,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="Content root, or its first digits (at least 8).")],
    hotkey: Annotated[str | None, typer.Option(help="Withdraw only the claims of this hotkey.")] = None,
    reason: Annotated[str, typer.Option(help="Why; kept on record.")] = "",
    json: Json = False,
) -> int:
    """Withdraw claims to a model: it is no longer found, and stays on record."""
    registry = Home(context.obj).registry
    model = registry.find(digest)
    gone = registry.remove(model, hotkey=_hotkey(hotkey), reason=reason)
    if json:
        emit({"content_root": model.content_root, "withdrawn": [claim_document(s) for s in gone]})
    else:
        print(f"withdrawn: {len(gone)} claim{'s' if len(gone) != 1 else ''} to {model.content_root}")
    return Exit.CLEAN


def model_document(model: KnownModel, *, withdrawn: bool = False) -> dict[str, Any]:
    """A known model as JSON; ``earliest`` is the claim that counts."""
    first = model.earliest
    return {
        "content_root": model.content_root,
        "family": model.family,
        "parameters": model.parameters,
        "algorithm": model.algorithm,
        "fingerprint": model.blob,
        "earliest": claim_document(first) if first else None,
        "claims": [claim_document(s) for s in model.submissions if withdrawn or s.active],
    }


def claim_document(submission: Submission) -> dict[str, Any]:
    """A claim as JSON."""
    claim = submission.claim
    return {
        "id": submission.id,
        "role": claim.role.value,
        "label": claim.label,
        "hotkey": claim.hotkey,
        "block": claim.block,
        "extrinsic": claim.extrinsic,
        "repo": claim.repo,
        "revision": claim.revision,
        "path": claim.path,
        "added_at": submission.added_at.isoformat(),
        "withdrawn_at": submission.withdrawn_at.isoformat() if submission.withdrawn_at else None,
        "withdrawn_reason": submission.withdrawn_reason,
    }


def _hotkey(text: str | None) -> str | None:
    if text is None:
        return None
    found, valid = address.normalise(text)
    if not valid:
        say(f"note: {found} is not an ss58 address; it is kept as it is")
    return found


def _added(added: Added) -> dict[str, Any]:
    return {
        "content_root": added.model.content_root,
        "new_model": added.new_model,
        "new_claim": added.new_claim,
        "claim": claim_document(added.submission),
        "model": model_document(added.model),
    }


def _say_added(added: Added) -> None:
    what = "added" if added.new_model else "another claim to a known model" if added.new_claim else "already known"
    print(f"{what}: {added.model.content_root}")
    first = added.model.earliest
    if first is not None and first.id != added.submission.id:
        from ..report import who

        print(printable(f"earliest claim: {who(added.model)}"))


def _print_models(models: list[KnownModel]) -> None:
    from ..report import short, who

    for model in models:
        print(f"{short(model.content_root)}  {printable(model.family):<8} {model.parameters:>15,}")
        print(f"  {who(model) or 'withdrawn'}")
    if not models:
        say("no known models; `forensics known add` registers one")
