"""``forensics verify``: check anything this project hands out, offline, and say what that proves."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Exit, UsageError
from ..text import printable
from . import attest_options as options
from . import sources
from .attest import tensors
from .console import emit
from .home import Home

if TYPE_CHECKING:
    from attest.checking import Expected
    from attest.envelope import Envelope

    from ..claims.measure import Measured
    from ..settings import Settings
    from ..trust import Trusted
    from ..verifying.report import Report
    from ..verifying.statements import Question


def verify(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Receipt, statement, checkpoint, model-signing or evidence bundle.")
    ],
    model: Annotated[str | None, typer.Option(help="The model it should be about.")] = None,
    parent: Annotated[str | None, typer.Option(help="The parent a lineage claim names.")] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="A key that counts: name+id+base64, ed25519:ADDRESS, or a file with one; may be repeated."),
    ] = None,
    statement: Annotated[
        Path | None, typer.Option(help="A receipt's statement, when too long for the log; a bundle's ownership claim.")
    ] = None,
    seal: Annotated[
        Path | None, typer.Option(help="The sealed claim that this one opens: its statement or receipt.")
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Model-signing bundle, when files were signed in pieces; MODEL.attest's if there."),
    ] = None,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: Annotated[str | None, typer.Option(help="Competition it must be for.")] = None,
    spot_check: Annotated[
        int,
        typer.Option(help="With a model-signing bundle: hash so many random files or pieces instead of all.", min=0),
    ] = 0,
    json: options.Json = False,
) -> int:
    """Check an artefact offline and say in words what is proven and what is not.

    Exits 3 when anything in it does not hold. Keys that count are this home's pinned ones and those given.
    """
    from ..claims import shelf
    from ..trust import Pins
    from ..verifying.kinds import Kind, kind_of
    from ..verifying.statements import Question

    data = shelf.read(file)
    home = Home(context.obj)
    trusted = Pins.of(home.settings).trusted(trust or ())
    kind = kind_of(data, where=str(file))
    if spot_check and kind is not Kind.BUNDLE:
        raise UsageError("only a model-signing bundle lists what could be sampled", where="--spot-check", got=str(kind))
    if kind is Kind.BUNDLE:
        folder = None if model is None else sources.path_of(model, home)
        expected = _expected(home.settings, netuid, network, genesis, competition)
        report = _bundle(data, file, trusted, folder, spot_check, expected, statement)
    elif kind is Kind.EVIDENCE:
        from ..verifying.files import verify_evidence

        report = verify_evidence(data, where=str(file))
    elif kind is Kind.CHECKPOINT:
        from ..verifying.logged import verify_checkpoint

        report = verify_checkpoint(data, trusted)
    else:
        expected = _expected(home.settings, netuid, network, genesis, competition)
        measured = None if model is None else _measured(model, bundle, home)
        theirs = None if parent is None else tensors(parent, home)
        hidden = None if seal is None else _seal(seal, trusted)
        question = Question(expected, trusted, measured, theirs, hidden)
        report = _statement(data, kind is Kind.RECEIPT, file, question, statement)
    emit(report.document()) if json else _print(report)
    return Exit.CLEAN


def _statement(
    data: bytes,
    is_receipt: bool,
    file: Path,
    question: Question,
    statement: Path | None,
) -> Report:
    from attest import envelope as dsse

    from ..claims import shelf
    from ..verifying.logged import verify_logged
    from ..verifying.statements import verify_statement

    if is_receipt:
        whole = None if statement is None else shelf.read(statement).strip()
        return verify_logged(data, question, statement=whole, where=str(file))
    report = verify_statement(dsse.read(data, where=str(file)), question, where=str(file))
    report.not_proven.append("that it is in any log: verify its receipt")
    return report


def _seal(file: Path, trusted: Trusted) -> Envelope:
    from ..claims import shelf
    from ..verifying.logged import statement_of

    return statement_of(shelf.read(file), trusted, where=str(file))


def _bundle(
    data: bytes,
    file: Path,
    trusted: Trusted,
    folder: Path | None,
    spot_check: int,
    expected: Expected,
    statement: Path | None,
) -> Report:
    from ..claims import shelf
    from ..verifying.files import delegated, key_of, verify_bundle

    beside = shelf.read_if(file.with_name(file.name + ".pub"))
    key, given = key_of(data, trusted.bundles, beside)
    report = verify_bundle(data, key, folder=folder, spot_check=spot_check, draw=secrets.randbelow)
    if statement is not None:
        report.take(delegated(shelf.read(statement), key, report.facts["root"], expected, where=str(statement)))
    else:
        report.not_proven.append("whose key it is: give the ownership claim that names it with --statement")
    if not given and statement is None:
        report.not_proven.append("that this is the right key: it was found beside the bundle; give yours with --trust")
    return report


def _measured(model: str, bundle: Path | None, home: Home) -> Measured:
    from ..claims.measure import measure

    path = sources.need_checkpoint(model, home)
    return measure(path, shard_size=_shard_size(path, bundle))


def _shard_size(model: Path, bundle: Path | None) -> int | None:
    """How the files were cut when they were signed; only a guess of how to hash, the claim's root decides."""
    from attest import canonical, modelsigning
    from attest import envelope as dsse
    from attest.errors import AttestError
    from attest.modelsigning.manifest import read_statement

    from ..claims import shelf

    data = shelf.read(bundle) if bundle is not None else shelf.read_if(shelf.shelf(model) / shelf.BUNDLE)
    if data is None:
        return None
    try:
        inner = canonical.read_object(data, where="bundle").get("dsseEnvelope")
        payload = dsse.from_object(inner).payload if isinstance(inner, dict) else b""
        manifest: modelsigning.Manifest = read_statement(payload)
    except AttestError:
        return None
    return manifest.shard_size


def _expected(
    settings: Settings, netuid: int | None, network: str | None, genesis: str | None, competition: str | None
) -> Expected:
    from attest.checking import Expected

    from ..place import genesis_of

    chain = genesis_of(network or "", genesis or "") if network is not None or genesis is not None else None
    return Expected(chain, netuid, competition)


def _print(report: Report) -> None:
    print(f"verified: {report.kind}")
    for sentence in report.proven:
        print(printable(f"  proven      {sentence}"))
    for sentence in report.not_proven:
        print(printable(f"  not proven  {sentence}"))
