"""``forensics attest``: make, sign and hand in statements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Exit, UsageError
from ..place import DEFAULT_COMPETITION
from . import attest_options as options
from . import sources
from .attest_open import open_
from .attest_own import own
from .console import emit, say
from .home import Home

if TYPE_CHECKING:
    from attest.lineage import Tensors
    from attest.predicates.lineage import Made
    from attest.predicates.rotation import ChainEvidence, Why

app = typer.Typer(
    help="Prove that a model is yours, and what it was made from.", no_args_is_help=True, rich_markup_mode=None
)
app.command("own")(own)
app.command("open")(open_)


@app.command("lineage")
def lineage(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The model that was made.")],
    parent: Annotated[
        str, typer.Option(help="The model it was made from: checkpoint, fingerprint file, or known:DIGEST.")
    ],
    wallet: options.Wallet = None,
    hotkey: options.HotkeyName = None,
    wallet_path: options.WalletPath = None,
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = DEFAULT_COMPETITION,
    submit: options.Submit = None,
    parent_statement: Annotated[
        str | None, typer.Option(help="Digest of the statement that claims the parent, if there is one.")
    ] = None,
    made: Annotated[
        str, typer.Option(help="derived (trained from it) or merged (one of several parents).")
    ] = "derived",
    note: Annotated[str, typer.Option(help="How it was trained; text for people; signed.")] = "",
    evaluation: Annotated[
        Path | None, typer.Option(help="Evaluation report; its digest is signed, the file stays here.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be signed; sign nothing.")] = False,
    out: options.Out = None,
    json: options.Json = False,
) -> int:
    """Say what a model was made from: the tensors that changed, each proven to be in the models named.

    A service that knows both models answers with what it measured: confirmed, contradicted or unverifiable.
    """
    from attest import envelope as dsse
    from attest.lineage import descend

    from ..claims import shelf
    from ..store.blobs import digest_of

    home = Home(context.obj)
    where = options.place(home.settings, netuid, network, genesis, competition)
    who = options.speaker(wallet, hotkey, wallet_path, scheme=None)
    child, theirs = tensors(path, home), tensors(parent, home)
    statement = descend(
        where.context(who.hotkey, parents=() if parent_statement is None else (parent_statement,)),
        theirs,
        child,
        made=_made(made),
        parent_statement=parent_statement,
        training_note=note,
        evaluation=None if evaluation is None else digest_of(shelf.read(evaluation)),
    )
    said: Any = statement.predicate
    counts = {name: getattr(said.changes, name) for name in ("changed", "added", "removed", "unchanged")}
    document: dict[str, Any] = {"statement": statement.digest, "child": child.root, "parent": theirs.root, **counts}
    document["listed"] = [tensor.name for tensor in said.changes.listed]
    if not dry_run and who.signer is not None:
        envelope = dsse.sign(statement.payload(), [who.signer])
        folder = shelf.make(out or shelf.shelf(sources.path_of(path, home)))
        file = folder / f"lineage-{theirs.root[7:23]}.json"
        document |= _kept(home, envelope, file, submit, who.pair)
    return _finish(document, json=json)


@app.command("rotate-key")
def rotate_key(
    context: typer.Context,
    successor: Annotated[str, typer.Option(help="Wallet of the new hotkey, NAME or NAME/HOTKEY.")],
    wallet: Annotated[str | None, typer.Option(help="Wallet of the old hotkey, NAME or NAME/HOTKEY.")] = None,
    wallet_path: options.WalletPath = None,
    lost: Annotated[
        str | None, typer.Option(help="The old hotkey's address, when its key is gone; needs --scheme, --block.")
    ] = None,
    scheme: Annotated[str, typer.Option(help="With --lost: the old hotkey's scheme.")] = "sr25519",
    block: Annotated[int | None, typer.Option(help="Block of the hotkey swap on chain.", min=0)] = None,
    extrinsic: Annotated[int | None, typer.Option(help="Index of the swap's extrinsic in that block.", min=0)] = None,
    why: Annotated[str, typer.Option(help="planned, compromised or lost.")] = "planned",
    netuid: options.Netuid = None,
    network: options.Network = None,
    genesis: options.Genesis = None,
    competition: options.Competition = DEFAULT_COMPETITION,
    note: Annotated[str, typer.Option(help="Text for people; signed.")] = "",
    submit: options.Submit = None,
    out: Annotated[Path | None, typer.Option(help="Folder for statement and receipt; here when absent.")] = None,
    json: options.Json = False,
) -> int:
    """Hand over from one hotkey to another, signed by both; a lost key by a swap that stands on chain.

    It counts from its anchor on. What the old key claimed before stays with its line; later it speaks for nobody.
    """
    from attest import envelope as dsse
    from attest.predicates import KeyRotation
    from attest.statement import state

    from ..claims import shelf, wallets

    home = Home(context.obj)
    where = options.place(home.settings, netuid, network, genesis, competition)
    new = options.speaker(successor, None, wallet_path, scheme=None)
    evidence = _evidence(lost, block, extrinsic)
    if evidence is None:
        old = options.speaker(wallet, None, wallet_path, scheme=None)
    else:
        old = options.Speaker(wallets.account(lost or "", scheme))
    speaks = new if evidence is not None else old
    rotation = KeyRotation(
        context=where.context(speaks.hotkey),
        predecessor=_account(old),
        successor=_account(new),
        why=_why("lost" if evidence is not None and why == "planned" else why),
        evidence=evidence,
        note=note,
    )
    statement = state(rotation)
    signers = [who.signer for who in (old, new) if who.signer is not None]
    envelope = dsse.sign(statement.payload(), signers)
    document: dict[str, Any] = {"statement": statement.digest, "from": str(old.hotkey), "to": str(new.hotkey)}
    file = shelf.make(out or Path()) / f"rotation-{statement.digest[7:23]}.json"
    return _finish(document | _kept(home, envelope, file, submit, new.pair), json=json)


@app.command("sign")
def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Statement written with --unsigned, or one to co-sign.")],
    wallet: options.Wallet = None,
    hotkey: options.HotkeyName = None,
    wallet_path: options.WalletPath = None,
    out: Annotated[Path | None, typer.Option(help="The signed statement; claim.json beside FILE when absent.")] = None,
    json: options.Json = False,
) -> int:
    """Sign a statement on the machine that has the key; needs no network, no model and no home.

    Shows what is signed: compare the content root with what `attest own` printed.
    """
    from attest import envelope as dsse
    from attest.envelope import IN_TOTO
    from attest.errors import UnsupportedInput
    from attest.statement import parse

    from ..claims import shelf
    from ..claims.submitting import read_unsigned

    envelope = read_unsigned(shelf.read(file), where=str(file))
    if envelope.payload_type != IN_TOTO:
        raise UnsupportedInput("wrong payload type", where=str(file), got=envelope.payload_type, expected=IN_TOTO)
    statement = parse(envelope.payload, where=str(file))
    who = options.speaker(wallet, hotkey, wallet_path, scheme=None)
    if who.signer is None or who.hotkey not in statement.must_sign():
        raise UsageError(
            "the statement is not for this hotkey to sign",
            where="--wallet",
            got=str(who.hotkey),
            expected=", ".join(map(str, statement.must_sign())),
        )
    signature = who.signer.sign(dsse.pae(envelope.payload_type, envelope.payload))
    signed = dsse.attach(envelope, who.signer.verifier, signature)
    target = out or file.with_name(shelf.CLAIM)
    options.store(signed, target)
    subjects = {subject.name.replace("-", "_"): f"sha256:{subject.digest.sha256}" for subject in statement.subjects}
    document = {"statement": statement.digest, "kind": statement.predicate_type, **subjects, "claim": str(target)}
    return _finish(document, json=json)


@app.command("submit")
def submit_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A signed statement.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="The service.")],
    wallet: options.Wallet = None,
    hotkey: options.HotkeyName = None,
    wallet_path: options.WalletPath = None,
    json: options.Json = False,
) -> int:
    """Hand in a signed statement; any hotkey may carry it. The receipt is kept beside it."""
    from attest import envelope as dsse

    from ..claims import shelf

    home = Home(context.obj)
    who = options.speaker(wallet, hotkey, wallet_path, scheme=None)
    envelope = dsse.read(shelf.read(file), where=str(file))
    document: dict[str, Any] = {"statement": envelope.digest}
    return _finish(document | _kept(home, envelope, file, url, who.pair), json=json)


def _kept(home: Home, envelope: Any, file: Path, submit: str | None, pair: Any) -> dict[str, Any]:
    options.store(envelope, file)
    document: dict[str, Any] = {"claim": str(file)}
    if submit is not None:
        done = options.hand_in(home.settings, submit, envelope, file, pair=pair)
        document |= options.receipt_document(done, file)
    return document


def tensors(text: str, home: Home) -> Tensors:
    """Digests of the tensors of a checkpoint, a fingerprint file or a known model."""
    from attest.lineage import Tensors

    if text.startswith(("known:", "sha256:")) or sources.is_fingerprint(sources.path_of(text, home)):
        with sources.opened(text, home) as model:
            return Tensors({entry.name: entry.digest for entry in model.fingerprint.tensors})
    from ..claims.measure import measure

    return measure(sources.path_of(text, home), files=False).tensors


def _evidence(lost: str | None, block: int | None, extrinsic: int | None) -> ChainEvidence | None:
    from attest.predicates.rotation import ChainEvidence

    if lost is None and block is None and extrinsic is None:
        return None
    if lost is None or block is None or extrinsic is None:
        raise UsageError(
            "a lost key needs its address and the swap", where="--lost", expected="--block and --extrinsic"
        )
    return ChainEvidence(block=block, extrinsic_index=extrinsic)


def _account(who: options.Speaker) -> Any:
    from attest.predicates import Account

    return Account(scheme=str(who.hotkey.scheme), hotkey=who.hotkey.address)


def _made(word: str) -> Made:
    from attest.predicates.lineage import Made

    if word not in tuple(Made):
        raise UsageError("unknown word", where="--made", got=word, expected="derived or merged")
    return Made(word)


def _why(word: str) -> Why:
    from attest.predicates.rotation import Why

    if word not in tuple(Why):
        raise UsageError("unknown word", where="--why", got=word, expected="planned, compromised or lost")
    return Why(word)


def _finish(document: dict[str, Any], *, json: bool) -> int:
    lineage = document.get("lineage")
    if lineage:
        say(f"note: the service says the lineage is {lineage['judgement']}")
    emit(document) if json else options.show(document)
    return Exit.CLEAN
