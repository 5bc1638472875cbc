"""``forensics log``: the transparency log, this home's own or a service's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import fields
from ..errors import BadInput, Exit, UsageError
from ..text import printable
from .console import emit, say
from .home import Home
from .output import write_file

if TYPE_CHECKING:
    from attest.log.note import Checkpoint, SignedCheckpoint
    from attest.log.proof import ProvenLeaf

    from ..forks import Case
    from ..trust import Pins, Trusted

app = typer.Typer(help="The transparency log.", no_args_is_help=True, rich_markup_mode=None)
Url = Annotated[str | None, typer.Option(metavar="URL", help="A service's log; this home's own when absent.")]
Trust = Annotated[
    list[str] | None, typer.Option(help="A key that counts, name+id+base64 or a file with one; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AUDITED = "audited"
_DECIMAL = re.compile(r"[0-9]{1,18}")


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
    by_number = _DECIMAL.fullmatch(entry) is not None
    index = int(entry) if by_number else source.number(entry)
    receipt = source.receipt(index)
    name = _opened(source.checkpoint(), source).checkpoint.origin
    proven = verify_receipt(receipt, log=source.trusted.log(name))
    _check_entry(proven, index, digest=None if by_number else entry)
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
    from ..claims import shelf

    home = Home(context.obj)
    source = _source(home, url, trust)
    notes = [_note(shelf.read(old)), _note(shelf.read(new)) if new is not None else source.checkpoint()]
    first, second = (_opened(note, source).checkpoint for note in notes)
    _compare(home, source, notes, newest=new is None, own=url is None)
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
    home = Home(context.obj)
    source = _source(home, url, trust)  # opening this home's own log audits it
    note = source.checkpoint()
    tree = _opened(note, source).checkpoint
    if url is not None:
        _audit_tiles(home, source, note, tree)
    document = {"log": tree.origin, "size": tree.size, "root": tree.root.hex(), "audited": True}
    if json:
        emit(document)
    else:
        print(printable(f"audited: {tree.origin}, {tree.size} entries, root {tree.root.hex()}"))
    return Exit.CLEAN


def _audit_tiles(home: Home, source: _Source, note: bytes, tree: Checkpoint) -> None:
    """Audit a service's log from its tiles, and against the newest checkpoint that passed here before."""
    from tempfile import TemporaryDirectory

    from attest.errors import AttestError

    from ..forks import Case
    from ..verifying.audits import audit as from_tiles

    last = home.settings.home / AUDITED / f"{source.trusted.log(tree.origin).public.hex()}.checkpoint"
    if last.is_file():
        _compare(home, source, [last.read_bytes(), note], newest=True, own=False)
    with TemporaryDirectory() as spool:  # a log may be larger than memory

        def fetch(path: str) -> bytes:
            data = source.tile(path)
            (Path(spool) / path.replace("/", "_")).write_bytes(data)
            return data

        try:
            from_tiles(tree, fetch)
        except (BadInput, AttestError):
            _keep(home, source, Case.TAMPERED, [note], ((f.name, f.read_bytes()) for f in Path(spool).iterdir()))
            raise
    last.parent.mkdir(parents=True, exist_ok=True)
    write_file(last, note, option="audited")


def _source(home: Home, url: str | None, trust: list[str] | None) -> _Source:
    from ..trust import Pins

    pins = Pins.of(home.settings)
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
        number=lambda digest: fields.integer(remote.attestation(digest), "log_index", where=url),
        trusted=pins.trusted(trust or ()),
    )


def _check_entry(proven: ProvenLeaf, index: int, *, digest: str | None) -> None:
    """What was proven must be what was asked for: a good receipt of another entry proves nothing about this one."""
    if proven.index != index:
        raise BadInput("the receipt is for another entry", where="receipt", got=proven.index, expected=index)
    if digest is None:
        return
    from ..attestations.record import digest_of_leaf

    found = digest_of_leaf(proven.leaf)
    if found != digest:
        raise BadInput("the receipt is for another statement", where="receipt", got=found, expected=digest)


def _opened(note: bytes, source: _Source) -> SignedCheckpoint:
    from ..verifying.logged import opened

    return opened(note, source.trusted)


def _note(data: bytes) -> bytes:
    """A checkpoint, also from inside a receipt."""
    from attest.log import parse_receipt
    from attest.log.proof import HEADER

    return parse_receipt(data).checkpoint if data.startswith(HEADER.encode()) else data


def _compare(home: Home, source: _Source, notes: list[bytes], *, newest: bool, own: bool) -> None:
    """Check that the second checkpoint continues the first, and keep both when it does not.

    Args:
        home: Where evidence is kept.
        source: The log.
        notes: The two signed checkpoints, opened before.
        newest: Whether the second is what the log shows as its newest, which cannot be the smaller one.
        own: Whether it is this home's own log.
    """
    from attest.errors import AttestError
    from attest.log.errors import LogTampered

    from ..forks import Case
    from ..verifying.audits import compare

    first, second = (_opened(note, source).checkpoint for note in notes)
    try:
        if newest and first.origin == second.origin and second.size < first.size:
            raise _shrunken(first, second)
        compare(first, second, source.consistency)
    except (BadInput, AttestError) as error:
        if first.origin != second.origin:
            raise
        case = Case.FORK if isinstance(error, LogTampered) else Case.UNPROVEN
        case = Case.SMALLER if isinstance(error, _Shrunken) else case
        _keep(home, source, case, notes)
        if own:
            _freeze(home, notes)
        raise


class _Shrunken(BadInput):
    """A log that shows fewer entries than it had signed before."""


def _shrunken(old: Checkpoint, new: Checkpoint) -> _Shrunken:
    return _Shrunken(
        "the log's newest checkpoint is smaller than the one kept: entries it had signed are gone",
        where=old.origin,
        got=f"{new.size} leaves {new.root.hex()}",
        expected=f"at least {old.size} leaves, continuing {old.root.hex()}",
        remedy="Keep both, and ask again: a log never shrinks. It shows an old state, or it was rewritten.",
    )


def _keep(
    home: Home, source: _Source, case: Case, notes: list[bytes], served: Iterable[tuple[str, bytes]] = ()
) -> None:
    """Keep signed checkpoints of the log, and what it served, as evidence."""
    from ..forks import FOLDER, Forks

    key = source.trusted.log(_opened(notes[-1], source).checkpoint.origin)
    folder = Forks(home.settings.home / FOLDER).keep(case, key, notes, served)
    what = "both checkpoints are kept" if len(notes) > 1 else "the checkpoint and what was served are kept"
    say(f"note: {what} in {folder}")


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
