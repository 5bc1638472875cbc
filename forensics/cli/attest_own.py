"""``forensics attest own`` and ``attest open``: this model is mine."""

from __future__ import annotations

import json as jsons
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Exit, UsageError
from ..place import DEFAULT_COMPETITION
from . import attest_options as options
from . import sources
from .console import emit, progress, say
from .home import Home
from .output import write_file

if TYPE_CHECKING:
    from attest.predicates.ownership import Release
    from attest.statement import Statement

    from ..claims.measure import Measured
    from ..place import Place
    from ..settings import Settings

Repo = Annotated[str | None, typer.Option(help="Where it is published, owner/name.")]
Revision = Annotated[str | None, typer.Option(help="Commit there, 40 hex digits.")]


def own(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The model: a folder, or a weight file.")],
    wallet: options.Wallet = None,
    hotkey: options.HotkeyName = None,
    wallet_path: options.WalletPath = None,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = DEFAULT_COMPETITION,
    submit: options.Submit = None,
    sealed: Annotated[bool, typer.Option("--sealed", help="Commit now, open later with `attest open`.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be signed; sign and write nothing.")
    ] = False,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Write the statement for `attest sign` on the machine that has the key.")
    ] = False,
    account: Annotated[str | None, typer.Option(help="With --unsigned: the hotkey's ss58 address.")] = None,
    scheme: options.Scheme = None,
    repo: Repo = None,
    revision: Revision = None,
    note: Annotated[str, typer.Option(help="Text for people; signed.")] = "",
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Make, keep and name the fingerprint too.")
    ] = False,
    shard_size: Annotated[
        int | None, typer.Option(help="Sign files in pieces of so many bytes; then a sample can be verified.", min=4096)
    ] = None,
    spot_check: Annotated[
        int, typer.Option(help="Random chunks of files that look unchanged to hash all the same.", min=0)
    ] = 0,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Read everything again, whatever was hashed before.")
    ] = False,
    out: options.Out = None,
    json: options.Json = False,
) -> int:
    """Claim a model: sign its files and its content, hand the claim in, keep the receipt beside the model.

    Files unchanged since the last time, by size and time, are not read again; --spot-check or --rehash do not take
    that on trust.
    """
    home = Home(context.obj)
    settings = home.settings
    where = options.place(settings, netuid, network, genesis, competition)
    _check_wishes(unsigned=unsigned, account=account, submit=submit, dry_run=dry_run, sealed=sealed)
    who = options.speaker(wallet, hotkey, wallet_path, scheme=scheme, account=account)
    model = sources.need_checkpoint(path)
    from ..claims import shelf

    folder = out or shelf.shelf(model)
    _check_outside(folder, model)
    measured = _measure(
        model, folder, shard_size=shard_size, fingerprint=fingerprint, spot_check=spot_check, rehash=rehash
    )
    release = _release(repo, revision)
    if sealed:
        return _seal(settings, where, who, measured, folder, submit=submit, dry_run=dry_run, json=json)
    statement = _state(settings, where, who, measured, release=release, note=note, folder_claim=not dry_run)
    document = _document(statement, measured)
    if dry_run:
        return _finish(document | {"statement": jsons.loads(statement.payload())}, json=json)
    shelf.make(folder)
    document |= _keep(settings, measured, folder, model.resolve().name)
    if unsigned:
        from ..claims.submitting import unsigned_json

        file = folder / shelf.UNSIGNED
        write_file(file, unsigned_json(statement.payload()) + b"\n", option="--out")
        say("note: sign it with `forensics attest sign`, then hand it in with `forensics attest submit`")
        return _finish(document | {"unsigned": str(file)}, json=json)
    return _sign_and_hand_in(settings, statement, who, folder / shelf.CLAIM, document, submit=submit, json=json)


def open_(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The model that was sealed.")],
    wallet: options.Wallet = None,
    hotkey: options.HotkeyName = None,
    wallet_path: options.WalletPath = None,
    submit: options.Submit = None,
    statement: Annotated[
        str | None, typer.Option(help="Digest of the sealed statement; the oldest of this model when absent.")
    ] = None,
    repo: Repo = None,
    revision: Revision = None,
    note: Annotated[str, typer.Option(help="Text for people; signed.")] = "",
    out: options.Out = None,
    json: options.Json = False,
) -> int:
    """Open a sealed claim: shows which model it was about; it counts from when the seal was anchored."""
    from attest import claims
    from attest import envelope as dsse
    from attest.statement import parse

    from ..claims import shelf
    from ..claims.sealed import SealedClaims
    from ..keys import Keys
    from ..place import Place

    settings = Home(context.obj).settings
    who = options.speaker(wallet, hotkey, wallet_path, scheme=None)
    model = sources.need_checkpoint(path)
    folder = out or shelf.shelf(model)
    _check_outside(folder, model)
    measured = _measure(model, folder)
    kept = SealedClaims(settings.home / "sealed").one(measured.roots.content, statement, hotkey=who.hotkey.address)
    sealed = parse(dsse.read(kept.envelope.encode()).payload)
    there = Place(sealed.context.genesis, sealed.context.netuid, sealed.context.competition)
    opening = claims.open_sealed(
        sealed,
        there.context(who.hotkey, parents=(sealed.digest,)),
        measured.roots,
        nonce=bytes.fromhex(kept.nonce),
        release=_release(repo, revision),
        signing_key=Keys.of(settings).bundle().verifier if measured.hashed is not None else None,
        note=note,
    )
    shelf.make(folder)
    document = _document(opening, measured) | {"opens": sealed.digest}
    document |= _keep(settings, measured, folder, model.resolve().name)
    return _sign_and_hand_in(settings, opening, who, folder / shelf.CLAIM, document, submit=submit, json=json)


def _check_wishes(*, unsigned: bool, account: str | None, submit: str | None, dry_run: bool, sealed: bool) -> None:
    if account is not None and not (unsigned or dry_run):
        raise UsageError("an account alone cannot sign", where="--account", remedy="Give --unsigned, or a --wallet.")
    if unsigned and (submit or sealed):
        raise UsageError("what is not signed cannot be handed in or sealed", where="--unsigned")


def _check_outside(folder: Path, model: Path) -> None:
    """A receipt inside the model would change what it is for."""
    inside, whole = folder.resolve(), model.resolve()
    if whole.is_dir() and (inside == whole or whole in inside.parents):
        raise UsageError("this lies inside the model, and would change it", where="--out", got=str(folder))


def _measure(
    model: Path,
    folder: Path,
    *,
    shard_size: int | None = None,
    fingerprint: bool = False,
    spot_check: int = 0,
    rehash: bool = False,
) -> Measured:
    from ..claims import measure as measuring
    from ..claims import shelf

    before = None if rehash else shelf.read_if(folder / shelf.HINTS)
    hints = None if before is None else measuring.read_hints(before, shard_size=shard_size)
    with progress(f"reading {model.name}") as bar:
        found = measuring.measure(
            model,
            shard_size=shard_size,
            hints=hints,
            spot_check=spot_check,
            draw=secrets.randbelow,
            fingerprint=fingerprint,
            progress=bar,
        )
    if found.hashed is None and (model.resolve().parent / "config.json").is_file():
        say("note: only this file is claimed; give its folder to have config.json and the rest signed too")
    if found.hashed is not None and found.hashed.reused:
        count, checked = len(found.hashed.reused), found.hashed.checked
        say(f"note: {count} files look unchanged and were not read again; {checked} chunks of them were")
    return found


def _state(
    settings: Settings,
    where: Place,
    who: options.Speaker,
    measured: Measured,
    *,
    release: Release | None,
    note: str,
    folder_claim: bool,
) -> Statement:
    from attest import claims

    from ..keys import Keys
    from ..store.blobs import digest_of

    # A dry run makes no key; the statement then lacks the delegation to it.
    key = Keys.of(settings).bundle().verifier if folder_claim and measured.hashed is not None else None
    return claims.own(
        where.context(who.hotkey),
        measured.roots,
        release=release,
        signing_key=key,
        fingerprint=None if measured.fingerprint is None else digest_of(measured.fingerprint),
        note=note,
    )


def _seal(
    settings: Settings,
    where: Place,
    who: options.Speaker,
    measured: Measured,
    folder: Path,
    *,
    submit: str | None,
    dry_run: bool,
    json: bool,
) -> int:
    from attest import claims
    from attest import envelope as dsse

    from ..claims import shelf
    from ..claims.sealed import Sealed, SealedClaims

    nonce = secrets.token_bytes(claims.NONCE_BYTES)
    statement = claims.seal(where.context(who.hotkey), measured.roots.content, nonce=nonce)
    document: dict[str, Any] = {"statement": statement.digest, "sealed": True}
    if dry_run:
        return _finish(document | {"content_root": measured.roots.content}, json=json)
    if who.signer is None:
        raise UsageError("a seal is signed where it is made", where="--sealed", expected="a --wallet")
    envelope = dsse.sign(statement.payload(), [who.signer])
    kept = Sealed(statement.digest, measured.roots.content, nonce.hex(), envelope.to_json().decode())
    nonce_file = SealedClaims(settings.home / "sealed").keep(kept)
    say(f"note: the nonce is in {nonce_file}; without it nobody can open the claim: back it up, show it to nobody")
    shelf.make(folder)
    file = folder / f"sealed-{statement.digest[7:23]}.json"
    options.store(envelope, file)
    document["claim"] = str(file)
    if submit is not None:
        done = options.hand_in(settings, submit, envelope, file, pair=who.pair)
        document |= options.receipt_document(done, file)
    return _finish(document, json=json)


def _keep(settings: Settings, measured: Measured, folder: Path, name: str) -> dict[str, Any]:
    """Bundle, its public key, hints and fingerprint on the shelf."""
    from attest import modelsigning

    from ..claims import shelf
    from ..keys import Keys

    document: dict[str, Any] = {}
    if measured.hashed is not None:
        key = Keys.of(settings).bundle()
        bundle = modelsigning.sign(measured.hashed, key, name=name)
        write_file(folder / shelf.BUNDLE, bundle, option="--out")
        write_file(folder / shelf.BUNDLE_KEY, key.verifier.pem(), option="--out")
        write_file(folder / shelf.HINTS, measured.hints(), option="--out")
        document["bundle"] = str(folder / shelf.BUNDLE)
    if measured.fingerprint is not None:
        write_file(folder / shelf.FINGERPRINT, measured.fingerprint, option="--out")
        document["fingerprint"] = str(folder / shelf.FINGERPRINT)
    return document


def _sign_and_hand_in(
    settings: Settings,
    statement: Statement,
    who: options.Speaker,
    file: Path,
    document: dict[str, Any],
    *,
    submit: str | None,
    json: bool,
) -> int:
    from attest import envelope as dsse

    from ..claims.shelf import same_claim

    if who.signer is None:
        raise UsageError("nobody to sign", where="--wallet")
    envelope = same_claim(file, statement) or dsse.sign(statement.payload(), [who.signer])
    options.store(envelope, file)
    document = document | {"statement": envelope.digest, "claim": str(file)}
    if submit is not None:
        done = options.hand_in(settings, submit, envelope, file, pair=who.pair)
        document |= options.receipt_document(done, file)
    return _finish(document, json=json)


def _document(statement: Statement, measured: Measured) -> dict[str, Any]:
    roots, context = measured.roots, statement.context
    return {
        "statement": statement.digest,
        "content_root": roots.content,
        "nameless_root": roots.nameless,
        "oms_root": roots.oms,
        "hotkey": context.hotkey,
        "scheme": context.scheme,
        "genesis": context.genesis,
        "netuid": context.netuid,
        "competition": context.competition,
    }


def _release(repo: str | None, revision: str | None) -> Release | None:
    from attest.predicates.ownership import Release

    if (repo is None) != (revision is None):
        raise UsageError("a release is a repository and a commit", where="--repo", remedy="Give both, or neither.")
    return None if repo is None or revision is None else Release(repo=repo, revision=revision)


def _finish(document: dict[str, Any], *, json: bool) -> int:
    emit(document) if json else options.show(document)
    return Exit.CLEAN
