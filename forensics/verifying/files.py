"""Model-signing bundles and evidence bundles."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from attest.canonical import Json
from attest.checking import Expected
from attest.claims import check_ownership
from attest.errors import BundleError, ContentMismatch
from attest.keys.p256 import P256Verifier
from attest.modelsigning import Manifest, open_bundle, verify_folder
from attest.modelsigning.bundle import key_hint
from attest.statement import OMS_ROOT

from ..errors import UsageError
from ..fields import shown
from .kinds import Kind
from .report import Report

CHUNK: Final = 1 << 20
Draw = Callable[[int], int]


def verify_bundle(
    data: bytes, key: P256Verifier, *, folder: Path | None, spot_check: int = 0, draw: Draw | None = None
) -> Report:
    """Check a model-signing bundle, and where the folder is at hand, all of it or a sample.

    Args:
        data: The bundle.
        key: The key it must be signed with.
        folder: The model.
        spot_check: Hash so many random resources (files, or pieces of files) instead of all.
        draw: ``draw(n)`` is a random number below n.

    Raises:
        AttestError: The bundle is refused, or the folder is not what it says.
    """
    manifest = open_bundle(data, key)
    report = Report(Kind.BUNDLE, {"key": key.spki_digest, "root": f"sha256:{manifest.root.hex()}"})
    report.facts |= {"name": manifest.name, "resources": len(manifest.resources)}
    report.proven.append(f"the key {key.spki_digest} signed {len(manifest.resources)} files or pieces of files")
    if not manifest.in_order:
        report.not_proven.append("that our tools made it: its files are not in canonical order")
    if folder is None:
        report.not_proven.append("that the files you hold are those: give the folder with --model")
    elif spot_check:
        checked = sample(manifest, folder, count=spot_check, draw=draw)
        report.facts["spot_checked"] = checked
        report.proven.append(
            f"{checked} of {len(manifest.resources)} randomly drawn resources are as signed; if a fraction f of them "
            f"had changed, this would have been seen with probability 1 - (1 - f)^{checked}"
        )
        report.not_proven.append("that the others are as signed: verify without --spot-check")
    else:
        found = verify_folder(data, folder.resolve(), key)
        report.facts["unsigned_empty"] = list(found.unsigned_empty)
        report.proven.append("the folder at hand holds exactly these files, byte for byte")
    return report


def delegated(statement: bytes, key: P256Verifier, root: str, expected: Expected, *, where: str) -> Report:
    """Check that an ownership claim names this key and these files: then the hotkey stands behind the bundle.

    Args:
        statement: The claim's envelope.
        key: The bundle's key.
        root: The bundle's root, ``sha256:`` text.
        expected: This place.
        where: Name of the claim's file, for messages.

    Raises:
        AttestError: The claim is refused, or names another key or other files.
    """
    claim = check_ownership(statement, expected=expected, where=where)
    named = claim.predicate.signing_key
    if named is None or named.spki != key.spki_digest:
        got = "no key" if named is None else named.spki
        raise ContentMismatch("the claim names another key", where=where, got=got, expected=key.spki_digest)
    claimed = claim.statement.digest_of(OMS_ROOT)
    if claimed != root:
        raise ContentMismatch("the claim is about other files", where=where, got=claimed, expected=root)
    speaker = claim.context.signer
    report = Report(Kind.BUNDLE, {"claim": claim.digest, "hotkey": speaker.address})
    report.proven.append(f"{speaker} claims these files and named this key, in the statement {claim.digest}")
    return report


def sample(manifest: Manifest, folder: Path, *, count: int, draw: Draw | None) -> int:
    """Hash ``count`` randomly drawn resources of a folder (all when there are fewer); returns how many were hashed.

    Raises:
        ContentMismatch: One is missing or not as signed.
    """
    if draw is None:
        raise UsageError("a sample needs randomness", where="--spot-check")
    left = list(manifest.resources)
    done = 0
    while left and done < count:
        resource = left.pop(draw(len(left)))
        path = folder.resolve() / resource.path
        if path.resolve() != path or not path.is_file():  # a link may lead anywhere
            raise ContentMismatch("file is missing", where=resource.path)
        if _digest(path, resource.start, resource.end) != resource.digest:
            raise ContentMismatch("file is not the one that was signed", where=resource.name)
        done += 1
    return done


def key_of(data: bytes, given: tuple[P256Verifier, ...], beside: bytes | None) -> tuple[P256Verifier, bool]:
    """The key a bundle was made with, and whether it was given rather than found beside the bundle.

    Raises:
        UsageError: No key at all.
        BundleError: None of the keys is the one the bundle names, or it names none.
    """
    from attest import canonical

    hint = _hint(canonical.read_object(data, where="bundle"))
    keys = [(key, True) for key in given] + ([(P256Verifier.from_pem(beside), False)] if beside is not None else [])
    if not keys:
        raise UsageError("no key to verify the bundle with", where="--trust", expected="a PEM file with a P-256 key")
    for key, was_given in keys:
        if key_hint(key) == hint:
            return key, was_given
    raise BundleError("made for another key", where="bundle", got=hint, expected=key_hint(keys[0][0]), code="wrong_key")


def _hint(bundle: dict[str, Json]) -> str:
    """The hint by which a bundle names its key."""
    found: Json = bundle
    path = "bundle"
    for name in ("verificationMaterial", "publicKey"):
        found, path = found[name] if isinstance(found, dict) and name in found else None, f"{path}.{name}"
        if not isinstance(found, dict):
            raise BundleError("not a model-signing bundle", where=path, got=shown(found), expected="an object")
    hint = found.get("hint") if isinstance(found, dict) else None
    if not isinstance(hint, str):
        raise BundleError("names no key", where=f"{path}.hint", got=shown(hint), expected="text")
    return hint


def verify_evidence(data: bytes, *, where: str) -> Report:
    """Check that an evidence bundle is whole; recomputing it is ``replay``'s work.

    Raises:
        EvidenceError: It is not the exact bytes that were written.
    """
    from ..bundle import parse, unpack
    from ..evidence import RESULT, SCHEMA

    members = unpack(data, schema=SCHEMA, where=where)
    result = parse(members[RESULT], where=f"{where}:{RESULT}")
    relation = result.get("relation") if isinstance(result, dict) else None
    report = Report(Kind.EVIDENCE, {"result": result, "digest": f"sha256:{sha256(data).hexdigest()}"})
    report.proven.append(f"the bundle is whole, and records the relation {relation!r}")
    report.not_proven.append("that the result follows from it: `forensics replay` recomputes it")
    report.not_proven.append("who made it: a signed verdict names it by its digest")
    return report


def _digest(path: Path, start: int, end: int | None) -> bytes:
    whole = sha256()
    with path.open("rb") as file:
        file.seek(start)
        left = (os.fstat(file.fileno()).st_size if end is None else end) - start
        while left > 0 and (chunk := file.read(min(CHUNK, left))):
            whole.update(chunk)
            left -= len(chunk)
        if left:
            raise ContentMismatch("file is shorter than signed", where=path.name)
        if end is None and file.read(1):
            raise ContentMismatch("file grew while it was read", where=path.name)
    return whole.digest()
