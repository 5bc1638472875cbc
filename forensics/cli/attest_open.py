"""``forensics attest open``: show which model a sealed claim was about."""

from __future__ import annotations

from typing import Annotated

import typer

from . import attest_options as options
from . import sources
from .attest_making import check_outside, document_of, keep, measured_model, release_of, sign_and_hand_in
from .attest_own import Repo, Revision
from .home import Home


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

    home = Home(context.obj)
    settings = home.settings
    who = options.speaker(wallet, hotkey, wallet_path, scheme=None)
    model = sources.need_checkpoint(path, home)
    folder = out or shelf.shelf(model)
    check_outside(folder, model)
    measured = measured_model(settings, model, folder)
    kept = SealedClaims(settings.home / "sealed").one(measured.roots.content, statement, hotkey=who.hotkey.address)
    sealed = parse(dsse.read(kept.envelope.encode()).payload)
    there = Place(sealed.context.genesis, sealed.context.netuid, sealed.context.competition)
    opening = claims.open_sealed(
        sealed,
        there.context(who.hotkey, parents=(sealed.digest,)),
        measured.roots,
        nonce=bytes.fromhex(kept.nonce),
        release=release_of(repo, revision),
        signing_key=Keys.of(settings).bundle().verifier if measured.hashed is not None else None,
        note=note,
    )
    shelf.make(folder)
    document = document_of(opening, measured) | {"opens": sealed.digest}
    document |= keep(settings, measured, folder, model)
    return sign_and_hand_in(settings, opening, who, folder / shelf.CLAIM, document, submit=submit, json=json)
