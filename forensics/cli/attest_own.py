"""``forensics attest own`` and ``attest open``: this model is mine."""

from __future__ import annotations

import json as jsons
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..place import DEFAULT_COMPETITION
from . import attest_options as options
from . import sources
from .attest_making import check_outside, document_of, finish, keep, measured_model, release_of, sign_and_hand_in
from .console import say
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
        int,
        typer.Option(help="Random chunks of files that look unchanged to hash all the same; small files whole.", min=0),
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
    model = sources.need_checkpoint(path, home)
    from ..claims import shelf

    folder = out or shelf.shelf(model)
    check_outside(folder, model)
    measured = measured_model(
        settings,
        model,
        folder,
        shard_size=shard_size,
        fingerprint=fingerprint,
        spot_check=spot_check,
        rehash=rehash,
    )
    release = release_of(repo, revision)
    if sealed:
        return _seal(settings, where, who, measured, folder, submit=submit, dry_run=dry_run, json=json)
    statement = _state(settings, where, who, measured, release=release, note=note, folder_claim=not dry_run)
    document = document_of(statement, measured)
    if dry_run:
        return finish(document | {"statement": jsons.loads(statement.payload())}, json=json)
    shelf.make(folder)
    document |= keep(settings, measured, folder, model)
    if unsigned:
        from ..claims.submitting import unsigned_json

        file = folder / shelf.UNSIGNED
        write_file(file, unsigned_json(statement.payload()) + b"\n", option="--out")
        say("note: sign it with `forensics attest sign`, then hand it in with `forensics attest submit`")
        return finish(document | {"unsigned": str(file)}, json=json)
    return sign_and_hand_in(settings, statement, who, folder / shelf.CLAIM, document, submit=submit, json=json)


def _check_wishes(*, unsigned: bool, account: str | None, submit: str | None, dry_run: bool, sealed: bool) -> None:
    if account is not None and not (unsigned or dry_run):
        raise UsageError("an account alone cannot sign", where="--account", remedy="Give --unsigned, or a --wallet.")
    if unsigned and (submit or sealed):
        raise UsageError("what is not signed cannot be handed in or sealed", where="--unsigned")


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
        return finish(document | {"content_root": measured.roots.content}, json=json)
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
    return finish(document, json=json)
