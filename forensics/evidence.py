"""Evidence: everything a comparison was made from, in one file that anybody can recompute.

A bundle holds both fingerprints, those of the base and the known parents that were used, the calibration, the names
and versions of the algorithms, and the result. ``replay`` recomputes the result and demands the same bytes; when they
differ it says whether an input, the calibration or the version did. A result made at full depth also needs the
weights: their fingerprints are made anew and must be the recorded ones, so a forged fingerprint does not survive.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import torch

import fingerprint.compare as comparing
from fingerprint import file, scan
from fingerprint.compare.relation import Comparison, Depth
from fingerprint.errors import FingerprintError

from . import bundle
from .errors import EvidenceError, ReplayMismatch, UsageError

if TYPE_CHECKING:
    from fingerprint.checkpoint.interface import Checkpoint
    from fingerprint.fingerprint import Fingerprint

    Opened = tuple[Checkpoint, Fingerprint]

SCHEMA = "forensics/evidence/v1"
REQUEST, RESULT, CALIBRATION = "request.json", "result.json", "calibration.json"
SIDES = ("candidate", "reference", "base")
KNOWN_LIMIT = 32


@dataclass(frozen=True)
class Inputs:
    """What a comparison was made from."""

    candidate: comparing.Source
    reference: comparing.Source
    calibration: comparing.Calibration
    base: comparing.Source | None = None
    known: tuple[comparing.Source, ...] = ()

    def compare(self, depth: Depth) -> Comparison:
        """Run the comparison these are the inputs of."""
        return comparing.compare(
            self.candidate, self.reference, base=self.base, known=self.known, depth=depth, calibration=self.calibration
        )


@dataclass(frozen=True)
class Replayed:
    """A recomputed result that has the recorded bytes.

    Attributes:
        comparison: The result.
        shipped_calibration: Whether the calibration is the one this program ships; with another one the numbers
            are reproducible, but they are somebody else's numbers.
        versions: Recorded versions.
    """

    comparison: Comparison
    shipped_calibration: bool
    versions: Mapping[str, str] = field(default_factory=dict)


def make(comparison: Comparison, inputs: Inputs) -> bytes:
    """The bundle of a comparison; the same comparison gives the same bytes."""
    sources = {"candidate": inputs.candidate, "reference": inputs.reference}
    sources |= {"base": inputs.base} if inputs.base is not None else {}
    sources |= {_known_name(number): source for number, source in enumerate(inputs.known)}
    weights = [name for name, source in sources.items() if source.checkpoint is not None]
    members = {RESULT: bundle.canonical(comparison.as_json()), CALIBRATION: inputs.calibration.to_bytes()}
    members |= {f"{name}.fingerprint": file.dumps(source.fingerprint) for name, source in sources.items()}
    members[REQUEST] = bundle.canonical(
        {
            "depth": comparison.depth.value,
            "algorithm": comparison.algorithm,
            "base": inputs.base is not None,
            "known": len(inputs.known),
            "weights": sorted(weights) if comparison.depth is Depth.FULL else [],
            "versions": versions(),
        }
    )
    return bundle.pack(SCHEMA, members)


def replay(
    data: bytes, *, where: str, checkpoints: Mapping[str, Checkpoint], known: Sequence[Checkpoint] = ()
) -> Replayed:
    """Recompute the result of a bundle.

    Args:
        data: The bundle.
        where: How to name it in errors.
        checkpoints: Opened weights by side (``candidate``, ``reference``, ``base``); needed for full depth.
        known: Opened weights of further known models, in any order.

    Raises:
        EvidenceError: The bundle is damaged, or a checkpoint given is not the recorded one.
        ReplayMismatch: It is intact, but gives another result here.
        UsageError: A full-depth result, and weights are missing.
    """
    members = bundle.unpack(data, schema=SCHEMA, where=where)
    request = _request(members, where)
    depth = Depth(request["depth"])
    given = {s: (c, scan.scan(c)) for s, c in checkpoints.items()}
    given |= _match_known(members, [(c, scan.scan(c)) for c in known])
    _check_weights(request["weights"], given, where)
    inputs = _inputs(members, request, given, where)
    comparison = inputs.compare(depth)
    if bundle.canonical(comparison.as_json()) != members[RESULT]:
        raise _mismatch(comparison, members, request, where)
    shipped = comparing.load_calibration().digest == inputs.calibration.digest
    return Replayed(comparison, shipped, request["versions"])


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    return {
        "forensics": _package_version(),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _package_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("model-forensics")
    except PackageNotFoundError:
        return "source"


def _known_name(number: int) -> str:
    return f"known/{number:03d}"


def _request(members: Mapping[str, bytes], where: str) -> dict[str, Any]:
    """The request, when it has the shape ``make`` gives it and every member it speaks of is there, and no other."""
    request = bundle.parse(members.get(REQUEST, b""), where=f"{where}:{REQUEST}")
    shape = {"depth": str, "algorithm": str, "base": bool, "known": int, "versions": dict, "weights": list}
    if not isinstance(request, dict) or {k: type(v) for k, v in request.items()} != shape:
        raise EvidenceError("request has another shape", where=f"{where}:{REQUEST}", expected=", ".join(shape))
    names = {*SIDES, *(_known_name(n) for n in range(KNOWN_LIMIT))}
    if (
        request["depth"] not in set(Depth)
        or not 0 <= request["known"] <= KNOWN_LIMIT
        or not all(isinstance(name, str) and name in names for name in request["weights"])
    ):
        raise EvidenceError("request is out of range", where=f"{where}:{REQUEST}", got=request["depth"][:20])
    expected = {REQUEST, RESULT, CALIBRATION, "candidate.fingerprint", "reference.fingerprint"}
    expected |= {"base.fingerprint"} if request["base"] else set()
    expected |= {f"{_known_name(n)}.fingerprint" for n in range(request["known"])}
    if expected != set(members):
        odd = sorted(expected ^ set(members))[0]
        raise EvidenceError("bundle lacks a member" if odd in expected else "unknown member", where=f"{where}:{odd}")
    return request


def _inputs(
    members: Mapping[str, bytes], request: Mapping[str, Any], given: Mapping[str, Opened], where: str
) -> Inputs:
    def source(name: str) -> comparing.Source:
        member = f"{name}.fingerprint"
        try:
            recorded = file.loads(members[member], where=member)
        except FingerprintError as error:
            raise EvidenceError(f"fingerprint is damaged: {error.what}", where=f"{where}:{member}") from None
        if name not in request["weights"]:
            return comparing.Source(recorded, None)
        checkpoint, fresh = given[name]
        _same_files(recorded, members[member], fresh, files=str(checkpoint.path), where=f"{where}:{member}")
        return comparing.Source(recorded, checkpoint)

    sides = {side: source(side) for side in SIDES if f"{side}.fingerprint" in members}
    known = tuple(source(_known_name(n)) for n in range(request["known"]))
    return Inputs(
        candidate=sides["candidate"],
        reference=sides["reference"],
        base=sides.get("base"),
        known=known,
        calibration=comparing.parse_calibration(members[CALIBRATION], where=f"{where}:{CALIBRATION}"),
    )


def _same_files(recorded: Fingerprint, raw: bytes, fresh: Fingerprint, *, files: str, where: str) -> None:
    """The weights given must yield the recorded fingerprint, byte for byte."""
    if fresh.content_root != recorded.content_root:
        raise EvidenceError(
            "these are not the weights the evidence is about",
            where=files,
            got=fresh.content_root,
            expected=recorded.content_root,
        )
    if file.dumps(fresh) != raw:
        raise EvidenceError(
            "the fingerprint in the bundle is not the one its weights give", where=where, remedy="Do not rely on it."
        )


def _match_known(members: Mapping[str, bytes], opened: Sequence[Opened]) -> dict[str, Opened]:
    """Which recorded known models the weights given are, by the bytes of their fingerprints."""
    fresh = {file.dumps(fingerprint): (checkpoint, fingerprint) for checkpoint, fingerprint in opened}
    names = {name.removesuffix(".fingerprint"): data for name, data in members.items() if name.startswith("known/")}
    return {name: fresh[data] for name, data in names.items() if data in fresh}


def _check_weights(wanted: Sequence[str], given: Mapping[str, Opened], where: str) -> None:
    missing = [name for name in wanted if name not in given]
    if missing:
        options = " ".join(f"--{name.partition('/')[0]} PATH" for name in missing)
        raise UsageError(
            "this result was made at full depth and needs the weights", where=where, remedy=f"Give {options}."
        )


def _mismatch(
    comparison: Comparison, members: Mapping[str, bytes], request: Mapping[str, Any], where: str
) -> ReplayMismatch:
    """Name what differs: version, calibration, or the fields of the result."""
    recorded = bundle.parse(members[RESULT], where=f"{where}:{RESULT}")
    fresh = comparison.as_json()
    if not isinstance(recorded, dict):
        return ReplayMismatch("the recorded result is not an object", where=f"{where}:{RESULT}")
    if recorded.get("algorithm") != fresh["algorithm"]:
        return ReplayMismatch(
            "another algorithm or calibration made this result",
            where=f"{where}:algorithm",
            got=fresh["algorithm"],
            expected=ascii(recorded.get("algorithm"))[:200],
            remedy="Replay it with the recorded version.",
        )
    fields = sorted(k for k in recorded.keys() | fresh.keys() if recorded.get(k) != fresh.get(k))
    differing = {k: v for k, v in versions().items() if request["versions"].get(k) != v}
    cause = "the result was changed, or an input was" if not differing else f"versions differ here: {differing}"
    return ReplayMismatch(
        f"the result differs in {', '.join(fields) or 'its encoding'}",
        where=f"{where}:{RESULT}",
        got=_extract(fresh, fields),
        expected=_extract(recorded, fields),
        remedy=f"{cause}.".capitalize(),
    )


def _extract(document: Mapping[str, Any], fields: list[str]) -> str:
    return ascii({k: document.get(k) for k in fields[:3]})[:160]
