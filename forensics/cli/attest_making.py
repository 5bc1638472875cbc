"""What ``attest own`` and ``attest open`` share: measure, keep, sign, hand in, print."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Exit, UsageError
from . import attest_options as options
from .console import emit, progress, say
from .output import write_file

if TYPE_CHECKING:
    from attest.predicates.ownership import Release
    from attest.statement import Statement

    from ..claims.measure import Measured
    from ..settings import Settings


def check_outside(folder: Path, model: Path) -> None:
    """A receipt inside the model would change what it is for."""
    inside, whole = folder.resolve(), model.resolve()
    if whole.is_dir() and (inside == whole or whole in inside.parents):
        raise UsageError("this lies inside the model, and would change it", where="--out", got=str(folder))


def measured_model(
    model: Path,
    folder: Path,
    *,
    shard_size: int | None = None,
    fingerprint: bool = False,
    spot_check: int = 0,
    rehash: bool = False,
) -> Measured:
    """The model's roots, with a progress bar and the hints of the last time."""
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


def keep(settings: Settings, measured: Measured, folder: Path, name: str) -> dict[str, Any]:
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


def sign_and_hand_in(
    settings: Settings,
    statement: Statement,
    who: options.Speaker,
    file: Path,
    document: dict[str, Any],
    *,
    submit: str | None,
    json: bool,
) -> int:
    """Sign, keep and, where a service is named, hand in; prints the document."""
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
    return finish(document, json=json)


def document_of(statement: Statement, measured: Measured) -> dict[str, Any]:
    """What a claim says of a model, as the commands print it."""
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


def release_of(repo: str | None, revision: str | None) -> Release | None:
    """Repository and commit, both or neither.

    Raises:
        UsageError: One without the other.
    """
    from attest.predicates.ownership import Release

    if (repo is None) != (revision is None):
        raise UsageError("a release is a repository and a commit", where="--repo", remedy="Give both, or neither.")
    return None if repo is None or revision is None else Release(repo=repo, revision=revision)


def finish(document: dict[str, Any], *, json: bool) -> int:
    """Print the document."""
    emit(document) if json else options.show(document)
    return Exit.CLEAN
