"""What is done to a checkpoint in a child process: fingerprint it, compare it with the known models.

Everything here takes and returns plain values, so that it can be called across the border of a process.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fingerprint.compare as comparing
from fingerprint import file
from fingerprint.checkpoint import open_checkpoint
from fingerprint.errors import FingerprintError
from fingerprint.plan import ALGORITHM
from fingerprint.scan import scan
from fingerprint.sketch import keyed

from .. import evidence
from ..known.claim import Claim, KnownModel, Role
from ..known.identify import NEAREST, Identification, Identifier, Match
from ..known.index import Index
from ..known.registry import Registry
from ..store.blobs import Blobs
from ..store.engine import connect
from .scans import Scans

NOTES = ".cache/"  # where huggingface_hub keeps its own metadata in a local folder


def algorithm() -> str:
    """Names what makes a fingerprint what it is, as the registry writes it."""
    return f"{ALGORITHM};key={keyed.key_id(keyed.DEFAULT_KEY)}"


def files_digest(path: str) -> tuple[dict[str, Any], bytes]:
    """Digest of the digests of all files below ``path``: equal for equal bytes under equal names, whoever sent them."""
    return {"files": _files(Path(path))}, b""


def fingerprint(path: str) -> tuple[dict[str, Any], bytes]:
    """The fingerprint of the checkpoint at ``path``, as its file's bytes."""
    with open_checkpoint(Path(path)) as weights:
        made = scan(weights)
    return {"content_root": made.content_root, "notes": list(made.meta.notes)}, file.dumps(made)


def identify(
    *, database: str, blobs: str, cache: str, content_root: str, path: str | None, claim: dict[str, Any], limit: int
) -> tuple[dict[str, Any], bytes]:
    """Compare a known model with all others; evidence of every match goes to the blob store.

    Args:
        database: URL of the database.
        blobs: URL of the blob store.
        cache: Folder of the search index.
        content_root: The model, which is registered.
        path: Its weights, when they are at hand.
        claim: Fields of the claim it is judged for.
        limit: How many models the search proposes.
    """
    engine = connect(database)
    store = Blobs(blobs)
    registry = Registry(engine, store)
    own = registry.by_root([content_root])[0]
    said = Claim(**{**claim, "role": Role(claim["role"])})
    try:
        with ExitStack() as stack:
            at_hand = _AtHand(registry, Scans(engine), stack)
            candidate = _weights(own, at_hand, path) or comparing.Source(registry.fingerprint(own), None)
            identifier = Identifier(
                registry,
                Index(engine, Path(cache)),
                calibration=comparing.load_calibration(),
                open_weights=lambda model: _weights(model, at_hand),
            )
            without = [] if _claimed_by_others(own, said) else [own.id]
            found = identifier.identify(candidate, limit=limit, nearest=NEAREST, claim=said, without=without)
            return _document(found, store, own), b""
    finally:
        engine.dispose()


@dataclass(frozen=True)
class _AtHand:
    """Where weights are looked for, and how they are known to be what was registered."""

    registry: Registry
    scans: Scans
    stack: ExitStack

    def open(self, path: Path, model: KnownModel) -> comparing.Source | None:
        """The weights at ``path`` when they are the model's: by the digest of their files, or else by a new scan."""
        weights = self.stack.enter_context(open_checkpoint(path))
        seen = self.scans.find(_files(path), algorithm())
        if seen is not None and seen.content_root == model.content_root and model.algorithm == algorithm():
            return comparing.Source(self.registry.fingerprint(model), weights)
        made = scan(weights)
        return comparing.Source(made, weights) if made.content_root == model.content_root else None


def _weights(model: KnownModel, at_hand: _AtHand, first: str | None = None) -> comparing.Source | None:
    """A model's weights, where they are still there and still the same."""
    claimed = [s.claim.path for s in model.submissions if s.active and s.claim.path]
    for path in dict.fromkeys([first, *claimed] if first else claimed):
        try:
            if Path(path).exists():
                found = at_hand.open(Path(path), model)
                if found is not None:
                    return found
        except (FingerprintError, OSError):
            continue
    return None


def _claimed_by_others(own: KnownModel, said: Claim) -> bool:
    return any(s.active and s.claim.hotkey != said.hotkey for s in own.submissions)


def _document(found: Identification, store: Blobs, own: KnownModel) -> dict[str, Any]:
    return {
        "content_root": own.content_root,
        "algorithm": own.algorithm,
        "searched": found.searched,
        "proposed": found.proposed,
        "skipped": list(found.skipped),
        "matches": [_match(match, store) for match in found.matches],
    }


def _match(match: Match, store: Blobs) -> dict[str, Any]:
    comparison = match.comparison
    return {
        "content_root": match.model.content_root,
        "base": match.model.is_base,
        "counts": match.counts,
        "distance": float(f"{match.distance:.6g}") if math.isfinite(match.distance) else None,
        "comparison": comparison.as_json(),
        "evidence": store.put(evidence.make(comparison, match.inputs)),
    }


def _files(root: Path) -> str:
    """Not what the hub's client notes beside the files; readers take no name with a slash, so nothing there is read."""
    found = (p for p in root.rglob("*") if p.is_file()) if root.is_dir() else iter([root])
    whole = hashlib.sha256()
    for name in sorted(found):
        relative = name.relative_to(root).as_posix() if name != root else name.name
        if not relative.startswith(NOTES):
            whole.update(f"{len(relative.encode())}:{relative}:{_sha256(name)}\n".encode())
    return "sha256:" + whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
