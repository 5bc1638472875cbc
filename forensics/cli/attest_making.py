"""What ``attest own`` and ``attest open`` share: measure, keep, sign, hand in, print."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Exit, UsageError
from . import attest_options as options
from .console import emit, progress, say
from .output import write_file

if TYPE_CHECKING:
    from attest.modelsigning import Hashed
    from attest.predicates.ownership import Release
    from attest.statement import Statement

    from ..claims.measure import Hints, Measured
    from ..settings import Settings


def check_outside(folder: Path, model: Path) -> None:
    """A receipt inside the model would change what it is for."""
    inside, whole = folder.resolve(), model.resolve()
    if whole.is_dir() and (inside == whole or whole in inside.parents):
        raise UsageError("this lies inside the model, and would change it", where="--out", got=str(folder))


def measured_model(
    settings: Settings,
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

    hints = None if rehash else _own_hints(settings, model, folder, shard_size)
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
    if found.hashed is not None:
        _say_what_was_read(found.hashed)
    return found


def _own_hints(settings: Settings, model: Path, folder: Path, shard_size: int | None) -> Hints | None:
    """Hints that this home wrote for this model; whoever shipped others gets nothing of them signed."""
    from ..claims import authentic, shelf
    from ..claims.measure import read_hints
    from ..keys import Keys

    path = folder / shelf.HINTS
    if not os.path.lexists(path):
        return None
    before, key = shelf.read_hints(path), Keys.of(settings).known_hints()
    ours = None if before is None or key is None else authentic.unseal(before, key=key, model=model)
    if ours is None:
        say(f"note: {path} was not written by this home for this model as it lies here, or is damaged; all is hashed")
        return None
    return read_hints(ours, shard_size=shard_size)


def _say_what_was_read(hashed: Hashed) -> None:
    """What of the files that look unchanged was believed, and what was checked."""
    if hashed.reused:
        checked = f"of these {hashed.checked} chunks were hashed" if hashed.checked else "nothing of these was checked"
        say(f"note: {len(hashed.reused)} files look unchanged and were not read again; {checked}")
    if hashed.confirmed:
        say(f"note: {len(hashed.confirmed)} files that look unchanged were hashed whole, and they are")


def keep(settings: Settings, measured: Measured, folder: Path, model: Path) -> dict[str, Any]:
    """Bundle, its public key, hints and fingerprint on the shelf."""
    from attest import modelsigning

    from ..claims import authentic, shelf
    from ..keys import Keys

    document: dict[str, Any] = {}
    if measured.hashed is not None:
        key = Keys.of(settings).bundle()
        bundle = modelsigning.sign(measured.hashed, key, name=model.resolve().name)
        hints = authentic.seal(measured.hints(), key=Keys.of(settings).hints(), model=model)
        write_file(folder / shelf.BUNDLE, bundle, option="--out")
        write_file(folder / shelf.BUNDLE_KEY, key.verifier.pem(), option="--out")
        write_file(folder / shelf.HINTS, hints, option="--out")
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
