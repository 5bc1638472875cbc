"""Model-signing bundles (OpenSSF Model Signing v1.0, key method): a signed manifest in DSSE in a Sigstore bundle.

Made so that ``model_signing verify key`` accepts them, and read so that what it signs is accepted. Refused although
that tool accepts it: names listed twice, names that leave the folder, bundles of nothing, symbolic links, and files
that the signer hid with ``ignore_paths``. Its fallback for a mis-encoded signed message of version 0.2 is not offered.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from attest import canonical, envelope
from attest.canonical import Json
from attest.errors import BundleError, ContentMismatch, UnsupportedInput
from attest.keys.p256 import P256Signer, P256Verifier

from .hashing import Hashed, hash_folder, list_files
from .manifest import GIT_PATHS, Manifest, read_statement

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
FILE_NAME: Final = "model.sig"


@dataclass(frozen=True, slots=True)
class CheckedFolder:
    """What a verified folder is, and what a reader should know about the bundle besides.

    Args:
        manifest: As signed.
        root: Hex SHA-256 over the digests in the order listed (the OMS root that claims name).
        in_order: False when the signer listed the files in another than the canonical order.
        hidden: Files that are there, that the signer told verifiers to ignore, and that the caller let pass.
        unsigned_empty: Empty files, of which a bundle in pieces says nothing.
    """

    manifest: Manifest
    root: str
    in_order: bool
    hidden: tuple[str, ...] = ()
    unsigned_empty: tuple[str, ...] = ()


def sign(hashed: Hashed, signer: P256Signer, *, name: str, ignore_paths: Iterable[str] = GIT_PATHS) -> bytes:
    """Sign a hashed folder.

    Args:
        hashed: From ``hash_folder``.
        signer: The P-256 key.
        name: The model's name; for people only.
        ignore_paths: What was left out when hashing, such as the bundle's own name.

    Raises:
        BundleError: There is nothing to sign.
    """
    if not hashed.resources:
        raise BundleError("there is no file to sign", where=name, code="empty_resources")
    manifest = Manifest(name, hashed.resources, hashed.shard_size, tuple(sorted(ignore_paths)))
    read_statement(manifest.statement())  # never sign what we would refuse
    signed = envelope.sign(manifest.statement(), [signer])
    whole: dict[str, Json] = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key_hint(signer.verifier)}, "tlogEntries": []},
        "dsseEnvelope": canonical.read(signed.to_json()),
    }
    return canonical.write(whole)


def open_bundle(raw: bytes, key: P256Verifier) -> Manifest:
    """Verify a bundle's signature and read what it says; no file is looked at.

    Raises:
        BundleError: Malformed, made for another key, or saying something that is refused (see ``read_statement``).
        InvalidSignature: Not signed by this key.
        UnsupportedInput: Signed with a certificate or keyless, or another predicate.
        MalformedInput: Not strict JSON.
    """
    whole = canonical.read_object(raw, where="bundle")
    if whole.get("mediaType") != MEDIA_TYPE:
        raise UnsupportedInput("not a model-signing bundle", got=whole.get("mediaType"), expected=MEDIA_TYPE)
    _check_material(whole.get("verificationMaterial"), key)
    inner = whole.get("dsseEnvelope")
    if not isinstance(inner, dict):
        raise BundleError("the bundle has no envelope", where="bundle: dsseEnvelope", expected="an object")
    verified = envelope.verify(envelope.from_object(_without_null_keyids(inner), where="bundle: dsseEnvelope"), [key])
    return read_statement(verified.payload)


def verify_folder(
    raw: bytes,
    folder: Path,
    key: P256Verifier,
    *,
    ignore: Iterable[str] = GIT_PATHS,
    allow_hidden: bool = False,
    workers: int | None = None,
) -> CheckedFolder:
    """Verify a bundle and that the folder is, file for file and byte for byte, what it says.

    Args:
        raw: The bundle. A file of the folder with exactly these bytes is taken for the bundle itself.
        folder: The checkpoint.
        key: The key it must be signed with.
        ignore: What the verifier leaves out, relative to the folder.
        allow_hidden: Let files pass that only the signer's ``ignore_paths`` leave out; they are reported either way.
        workers: Threads for hashing.

    Raises:
        BundleError: Files are hidden, or see ``open_bundle`` and ``list_files``.
        ContentMismatch: A file is missing, too many, or other than signed.
    """
    manifest = open_bundle(raw, key)
    own = tuple(ignore)
    present = list_files(folder, ignore=own)
    itself = tuple(path for path, now in present.items() if now.st_size == len(raw) and _is(folder / path, raw))
    signed = {resource.path for resource in manifest.resources}
    hidden = tuple(p for p in present if p not in signed and p not in itself and _under(p, manifest.ignore_paths))
    if hidden and not allow_hidden:
        raise BundleError(
            "the signer's ignore_paths hide files", where=str(folder), got=", ".join(hidden), code="hidden_files"
        )
    outside = {path for path in itself if path not in signed} | set(hidden)
    hashed = hash_folder(folder, shard_size=manifest.shard_size, ignore=(*own, *outside), workers=workers)
    _compare(manifest, hashed)
    empty = () if manifest.shard_size is None else tuple(p for p, h in hashed.hints.items() if h.size == 0)
    return CheckedFolder(manifest, manifest.root.hex(), manifest.in_order, hidden, empty)


def key_hint(key: P256Verifier) -> str:
    """What a bundle calls its key: hex SHA-256 of the PEM text."""
    return sha256(key.pem()).hexdigest()


def _compare(manifest: Manifest, hashed: Hashed) -> None:
    expected = {resource.name: resource.digest for resource in manifest.resources}
    found = {resource.name: resource.digest for resource in hashed.resources}
    for what, names in (("missing", expected.keys() - found.keys()), ("not signed", found.keys() - expected.keys())):
        if names:
            raise ContentMismatch(f"files are {what}", where=manifest.name, got=", ".join(sorted(names)))
    wrong = sorted(name for name, digest in expected.items() if not hmac.compare_digest(found[name], digest))
    if wrong:
        raise ContentMismatch("files are not those that were signed", where=manifest.name, got=", ".join(wrong))


def _check_material(material: Json | None, key: P256Verifier) -> None:
    if not isinstance(material, dict):
        raise BundleError("the bundle has no verification material", where="bundle: verificationMaterial")
    public = material.get("publicKey")
    if not isinstance(public, dict):
        raise UnsupportedInput(
            "signed with a certificate, not with a key", where="bundle: verificationMaterial", expected="publicKey"
        )
    if public.get("hint") != key_hint(key):
        raise BundleError(
            "made for another key", where="bundle", got=public.get("hint"), expected=key_hint(key), code="wrong_key"
        )


def _without_null_keyids(inner: dict[str, Json]) -> dict[str, Json]:
    """The format lets ``keyid`` be null; it decides nothing."""
    signatures = inner.get("signatures")
    if not isinstance(signatures, list):
        return inner
    plain: list[Json] = [
        {k: v for k, v in entry.items() if (k, v) != ("keyid", None)} if isinstance(entry, dict) else entry
        for entry in signatures
    ]
    return {**inner, "signatures": plain}


def _under(path: str, ignored: Iterable[str]) -> bool:
    return any(path == skip.rstrip("/") or path.startswith(skip.rstrip("/") + "/") for skip in ignored)


def _is(file: Path, raw: bytes) -> bool:
    return file.read_bytes() == raw
