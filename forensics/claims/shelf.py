"""The folder beside a model that holds what was claimed of it: ``model.attest`` next to ``model``.

Beside, never inside: what lies inside is signed, so a receipt put there would change the model it is for. Everything
in it may be published; nonces of sealed claims are kept under the home until they are opened.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from attest import envelope as dsse
from attest.envelope import Envelope
from attest.errors import AttestError
from attest.statement import Statement, parse

from ..errors import BadInput, Unavailable

SUFFIX = ".attest"
CLAIM, RECEIPT = "claim.json", "claim.tlog-proof"
UNSIGNED = "claim.unsigned.json"
BUNDLE, BUNDLE_KEY = "model.sig", "model.sig.pub"
HINTS = "hints.json"
FINGERPRINT = "model.fp"
READ_LIMIT = 64 << 20


def shelf(model: Path) -> Path:
    """Where what is claimed of a model lies."""
    whole = model.resolve()
    return whole.parent / (whole.name + SUFFIX)


def receipt_of(statement: Path) -> Path:
    """Where the receipt of a statement file lies."""
    return statement.with_suffix(".tlog-proof")


def set_aside(statement: Path, *, keep: str) -> None:
    """Give an older statement and its receipt a name of their own, unless its payload has the digest ``keep``.

    A receipt is evidence, also of a claim that was made again since.

    Raises:
        Unavailable: It cannot be renamed.
    """
    before = read_if(statement)
    if before is None:
        return
    try:
        digest = dsse.read(before).digest
    except AttestError:
        digest = "sha256:" + sha256(before).hexdigest()
    if digest == keep:
        return
    try:
        for file in (statement, receipt_of(statement)):
            if file.exists():
                file.rename(file.with_name(f"{statement.stem}-{digest[7:23]}{file.suffix}"))
    except OSError as error:
        raise Unavailable("cannot set an older claim aside", where=str(statement), got=error.strerror or "") from None


def same_claim(file: Path, statement: Statement) -> Envelope | None:
    """The claim that was signed before, when it says the same but for the time: one claim is not made twice."""
    before = read_if(file)
    try:
        envelope = None if before is None else dsse.read(before)
        told = None if envelope is None else parse(envelope.payload)
        good = told is not None and envelope is not None and _verified(envelope, told)
    except AttestError:
        return None
    return envelope if good and told is not None and _timeless(told) == _timeless(statement) else None


def _verified(envelope: Envelope, statement: Statement) -> bool:
    keys = [key.verifier() for key in statement.must_sign()]
    return len(dsse.verify(envelope, keys, threshold=len(keys)).signers) == len(keys)


def _timeless(statement: Statement) -> Statement:
    context = replace(statement.context, claimed_at="2000-01-01T00:00:00Z")
    return Statement(statement.subjects, replace(statement.predicate, context=context))


def make(folder: Path) -> Path:
    """The folder, made where it is missing.

    Raises:
        Unavailable: It cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(
            "cannot make the folder for claims",
            where=str(folder),
            got=error.strerror or str(error),
            remedy="Give another place with --out.",
        ) from None
    return folder


def read(path: Path, *, limit: int = READ_LIMIT) -> bytes:
    """A file of it, or any other that was handed in.

    Raises:
        Unavailable: Absent or unreadable.
        BadInput: Too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise Unavailable("cannot be read", where=str(path), got=error.strerror or str(error)) from None
    if len(data) > limit:
        raise BadInput("file is too large", where=str(path), expected=f"at most {limit} bytes")
    return data


def read_if(path: Path) -> bytes | None:
    """A file that need not be there."""
    return read(path) if path.is_file() else None


def read_hints(path: Path) -> bytes | None:
    """The file of hints; one that is too large or cannot be read is none."""
    try:
        return read_if(path)
    except (BadInput, Unavailable):
        return None
