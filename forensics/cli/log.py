"""``forensics log``: the transparency log, this home's own or a service's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Exit, UsageError
from ..text import printable
from .console import emit, say
from .home import Home
from .output import write_file

if TYPE_CHECKING:
    from attest.log.note import SignedCheckpoint

    from ..trust import Pins, Trusted

app = typer.Typer(help="The transparency log.", no_args_is_help=True, rich_markup_mode=None)
Url = Annotated[str | None, typer.Option(metavar="URL", help="A service's log; this home's own when absent.")]
Trust = Annotated[
    list[str] | None, typer.Option(help="A key that counts, name+id+base64 or a file with one; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
EVIDENCE = "evidence"


@dataclass(frozen=True)
class _Source:
    """A log, wherever it is.

    Args:
        checkpoint: Its newest checkpoint.
        receipt: The receipt of a leaf.
        consistency: The proof between two sizes.
        tile: A tile by its path.
        number: Number of a statement's leaf.
        trusted: Keys that count for it.
    """

    checkpoint: Callable[[], bytes]
    receipt: Callable[[int], bytes]
    consistency: Callable[[int, int], list[bytes]]
    tile: Callable[[str], bytes]
    number: Callable[[str], int]
    trusted: Trusted


@app.command("checkpoint")
def checkpoint(
    context: typer.Context,
    url: Url = None,
    trust: Trust = None,
    out: Annotated[Path | None, typer.Option(help="Keep the signed checkpoint in this file.")] = None,
    json: Json = False,
) -> int:
    """Print the newest signed checkpoint; its SHA-256 is what is anchored on chain.

    Keep it: whoever holds an old checkpoint can prove that the log was rewritten.
    """
    source = _source(Home(context.obj), url, trust)
    note = source.checkpoint()
    tree = _opened(note, source).checkpoint
    if out is not None:
        write_file(out, note, option="--out")
    if json:
        emit(
            {
                "log": tree.origin,
                "size": tree.size,
                "root": tree.root.hex(),
                "anchor": tree.digest().hex(),
                "note": note.decode(),
            }
        )
    else:
        print("\n".join(printable(line) for line in note.decode().rstrip("\n").split("\n")))
        say(f"anchor {tree.digest().hex()}")
    return Exit.CLEAN


@app.command("prove")
def prove(
    context: typer.Context,
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="Number of a leaf, or digest of a statement.")],
    url: Url = None,
    trust: Trust = None,
    out: Annotated[Path | None, typer.Option(help="Write the receipt to this file; stdout when absent.")] = None,
    json: Json = False,
) -> int:
    """Make the receipt of an entry: `forensics verify` checks it with nothing but the log's key."""
    from attest.log import verify_receipt

    source = _source(Home(context.obj), url, trust)
    index = int(entry) if entry.isdigit() and len(entry) < 19 else source.number(entry)
    receipt = source.receipt(index)
    name = _opened(source.checkpoint(), source).checkpoint.origin
    proven = verify_receipt(receipt, log=source.trusted.log(name))
    if out is not None:
        write_file(out, receipt, option="--out")
    if json:
        tree = proven.signed.checkpoint
        emit({"index": proven.index, "log": tree.origin, "size": tree.size, "receipt": receipt.decode()})
    elif out is None:
        print("\n".join(printable(line) for line in receipt.decode().rstrip("\n").split("\n")))
    return Exit.CLEAN


@app.command("consistency")
def consistency(
    context: typer.Context,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A checkpoint kept earlier (or a receipt).")],
    new: Annotated[Path | None, typer.Argument(metavar="[NEW]", help="Another one; the newest when absent.")] = None,
    url: Url = None,
    trust: Trust = None,
    json: Json = False,
) -> int:
    """Check that the log only grew since an older checkpoint.

    When it did not, both checkpoints are kept as evidence, and this home's own log signs nothing more. Exits 3 then.
    """
    from attest.log.errors import LogTampered

    from ..claims import shelf
    from ..verifying.audits import compare

    home = Home(context.obj)
    source = _source(home, url, trust)
    notes = [_note(shelf.read(old)), _note(shelf.read(new)) if new is not None else source.checkpoint()]
    first, second = (_opened(note, source).checkpoint for note in notes)
    try:
        compare(first, second, source.consistency)
    except LogTampered:
        say(f"note: both checkpoints are kept in {_keep_evidence(home, notes)}")
        if url is None:
            _freeze(home, notes)
        raise
    sizes = sorted((first.size, second.size))
    document = {"log": first.origin, "consistent": True, "old": sizes[0], "new": sizes[1]}
    if json:
        emit(document)
    else:
        print(printable(f"consistent: {first.origin} grew from {sizes[0]} to {sizes[1]} entries and kept all of them"))
    return Exit.CLEAN


@app.command("audit")
def audit(context: typer.Context, url: Url = None, trust: Trust = None, json: Json = False) -> int:
    """Hash every entry again and compare with what was signed; exits 3 when anything differs.

    This home's own log is audited down to every stored tile and checkpoint, a service's from its public tiles.
    """
    source = _source(Home(context.obj), url, trust)  # opening this home's own log audits it
    tree = _opened(source.checkpoint(), source).checkpoint
    if url is not None:
        from ..verifying.audits import audit as from_tiles

        from_tiles(tree, source.tile)
    document = {"log": tree.origin, "size": tree.size, "root": tree.root.hex(), "audited": True}
    if json:
        emit(document)
    else:
        print(printable(f"audited: {tree.origin}, {tree.size} entries, root {tree.root.hex()}"))
    return Exit.CLEAN


def _source(home: Home, url: str | None, trust: list[str] | None) -> _Source:
    from ..keys import Keys
    from ..trust import Pins

    pins = Pins(home.settings.home / "trust", Keys.of(home.settings))
    return _own(home, pins, trust) if url is None else _remote(pins, url, trust)


def _own(home: Home, pins: Pins, trust: list[str] | None) -> _Source:
    from ..api.services import Services

    services = Services.open(home.settings, home.engine)
    log = services.log

    def number(digest: str) -> int:
        record = services.attestations.find(digest)
        if record is None:
            raise UsageError("no statement of this digest was handed in here", got=digest[:80])
        return record.log_index

    return _Source(
        checkpoint=log.checkpoint,
        receipt=lambda index: log.prove(index).encode(),
        consistency=log.prove_consistency,
        tile=log.tile,
        number=number,
        trusted=pins.trusted([str(services.log_key), *(trust or ())]),
    )


def _remote(pins: Pins, url: str, trust: list[str] | None) -> _Source:
    """A service's log; its key is pinned at first contact, unless one is given."""
    from ..claims.remote import Remote

    remote = Remote(url)
    if not trust:
        key = remote.identity().log_key
        if pins.pin(key):
            say(f"note: first contact with log {key.name}; its key is pinned: {key}")
    return _Source(
        checkpoint=remote.checkpoint,
        receipt=remote.receipt,
        consistency=remote.consistency,
        tile=remote.tile,
        number=lambda digest: int(remote.attestation(digest)["log_index"]),
        trusted=pins.trusted(trust or ()),
    )


def _opened(note: bytes, source: _Source) -> SignedCheckpoint:
    from ..verifying.logged import opened

    return opened(note, source.trusted)


def _note(data: bytes) -> bytes:
    """A checkpoint, also from inside a receipt."""
    from attest.log import parse_receipt
    from attest.log.proof import HEADER

    return parse_receipt(data).checkpoint if data.startswith(HEADER.encode()) else data


def _keep_evidence(home: Home, notes: list[bytes]) -> Path:
    from hashlib import sha256

    folder = home.settings.home / EVIDENCE
    folder.mkdir(parents=True, exist_ok=True)
    for note in notes:
        write_file(folder / f"{sha256(note).hexdigest()[:32]}.checkpoint", note, option="evidence")
    return folder


def _freeze(home: Home, notes: list[bytes]) -> None:
    """Show this home's own log what was signed by its key; it keeps what contradicts it and freezes."""
    from attest.log.errors import LogForked

    from ..api.services import Services

    log = Services.open(home.settings, home.engine).log
    for note in notes:
        try:
            log.observe(note)
        except LogForked as error:
            say(f"error: {error}")
