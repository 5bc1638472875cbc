"""The one entry: two sources in, one Comparison out."""

from __future__ import annotations

from collections.abc import Sequence

import fingerprint.compare.full as full
import fingerprint.compare.sketch as sketch
from fingerprint.compare.blind import blind
from fingerprint.compare.calibration import Calibration, load_calibration
from fingerprint.compare.content import identity, packaging
from fingerprint.compare.decide import decide
from fingerprint.compare.evidence import Evidence, Same
from fingerprint.compare.relation import Comparison, Depth
from fingerprint.compare.source import Source
from fingerprint.errors import FingerprintFileError


def compare(
    candidate: Source,
    reference: Source,
    *,
    base: Source | None = None,
    known: Sequence[Source] = (),
    depth: Depth = Depth.FULL,
    calibration: Calibration | None = None,
) -> Comparison:
    """What ``candidate`` is to ``reference``.

    Args:
        candidate: The model in question.
        reference: The model it is held against.
        base: A public model both may come from: everything is then also done in delta space.
        known: Further known models, tried as further parents of a merge.
        depth: ``full`` reads both checkpoints; falls back to ``sketch`` where one is not at hand (the answer says so).
        calibration: Tails and thresholds; the packaged ones by default.

    Raises:
        FingerprintFileError: The fingerprints were made by different algorithms or keys.
        CheckpointError: A checkpoint turned out damaged while it was read.
    """
    return decide(gather(candidate, reference, base=base, known=known, depth=depth), calibration or load_calibration())


def gather(
    candidate: Source, reference: Source, *, base: Source | None, known: Sequence[Source], depth: Depth
) -> Evidence:
    """The evidence ``compare`` decides on (kept apart for calibration)."""
    same = _check(candidate, reference)
    blank = Evidence(
        candidate=candidate.fingerprint.content_root,
        reference=reference.fingerprint.content_root,
        depth=depth if candidate.checkpoint is not None and reference.checkpoint is not None else Depth.SKETCH,
        same=same,
        transforms=packaging(candidate.fingerprint, reference.fingerprint, same),
        blind=blind(candidate.fingerprint) or blind(reference.fingerprint),
    )
    if same is not Same.NO or blank.blind:
        return blank
    if blank.depth is Depth.SKETCH or candidate.canonical is None or reference.canonical is None:
        others = {k.fingerprint.content_root: k.fingerprint for k in known}
        return sketch.gather(
            candidate.fingerprint, reference.fingerprint,
            base=None if base is None else base.fingerprint, known=others, blank=blank,
        )  # fmt: skip
    return full.gather(
        candidate.canonical,
        reference.canonical,
        stored=candidate.stored,
        base=None if base is None else base.canonical,
        known={k.fingerprint.content_root: k.canonical for k in known if k.canonical is not None},
        moments=lambda: reference.moments,
        blank=blank,
    )


def _check(candidate: Source, reference: Source) -> Same:
    a, b = candidate.fingerprint, reference.fingerprint
    if a.algorithm != b.algorithm or a.meta.key_id != b.meta.key_id:
        raise FingerprintFileError(
            "fingerprints cannot be compared",
            got=f"{a.algorithm} key {a.meta.key_id}",
            expected=f"{b.algorithm} key {b.meta.key_id}",
            remedy="Scan both with the same version and key.",
        )
    return identity(a, b)
