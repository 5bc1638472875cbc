"""From evidence to one Relation. Pure: the same evidence and calibration give the same answer, byte for byte.

Order of thought (issue Fingerprint): same content? same after undoing a symmetry? linear in known models? partly?
then what is the change: drawn, or learned? else independent. A copy is only ever called when the absence of learning
is shown; whatever is merely related stays out of the copy class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fingerprint.architecture.interface import Role
from fingerprint.compare.calibration import Calibration
from fingerprint.compare.evidence import Evidence, Mix, Same
from fingerprint.compare.learning import (
    CHANCE,
    DRAWN_STOUFFER,
    DRAWN_UNDONE,
    NEGLIGIBLE,
    STRAY_UNDONE,
    learned,
    telling,
    total,
)
from fingerprint.compare.relation import Comparison, Depth, Parent, Relation
from fingerprint.compare.words import change_names, per_layer, shared_names

ALGORITHM = "compare@1"

WHOLE = 0.97
"""Coverage from which a candidate is whole: the rest may be pooler, classifier or new vocabulary rows."""

PART = 0.03
"""Coverage from which sharing is worth naming as partial."""

SEEDED = 0.10
"""The same for models without known roles: parts that training hardly moved keep what a common seed gave them."""

HELD = 0.98
"""Coefficient of the candidate's change on the parent's from which the candidate contains all of the parent's change.

Two fine-tunes of one base on the same data in another order reach .91; a continued fine-tune stays at 1 +- .01."""

MIXED = 0.25
"""A combination of known models must leave less than this fraction of what the nearest single one leaves."""

MIN_WEIGHT = 0.02
"""Weights below this are not named as parents."""

ACCUSE = 1e-3
"""False-accusation probability above which the copy class is not used, whatever else is seen."""


def decide(evidence: Evidence, calibration: Calibration) -> Comparison:
    """The Relation that ``evidence`` supports.

    Args:
        evidence: What was measured.
        calibration: Tails and thresholds.
    """
    answer = _Answer(evidence, calibration)
    if evidence.same is not Same.NO:
        return answer.say(Relation.IDENTICAL, 1.0, 0.0, "The values are the same; only their packaging may differ.")
    if evidence.blind:
        return answer.say(Relation.INCONCLUSIVE, 0.99, 1.0, f"There is too little to compare: {evidence.blind}.")
    coverage = evidence.coverage
    if not evidence.changes or coverage < PART:
        return answer.apart()
    if coverage < SEEDED and all(c.slot.role is Role.OTHER for c in evidence.changes):
        return answer.say(
            Relation.INCONCLUSIVE, 0.9, 1.0,
            f"Only {coverage:.0%} of the parameters agree ({shared_names(evidence)}): a common seed does that too.",
        )  # fmt: skip
    if coverage < WHOLE or _lost_layers(evidence):
        return answer.say(
            Relation.PARTIAL, 0.99, 1.0,
            f"{coverage:.0%} of the candidate's parameters come from the reference: {shared_names(evidence)}.",
        )  # fmt: skip
    if all(c.residual <= NEGLIGIBLE for c in evidence.changes) and not _loose(evidence):
        return answer.untouched()
    merged = _merged(evidence)
    if merged is not None:
        return answer.merged(merged)
    return answer.changed()


HALF = -0.5
"""Coefficient on the reference's own change below which a candidate is more of the base than of the reference: the
base itself, at -1, is nobody's copy."""


FAR = -0.35
"""The same at sketch depth, where a third part of a mixture can hide: half of two models is half the way to a base."""


def _mostly_base(evidence: Evidence) -> bool:
    """Whether what distinguishes the reference from the base was mostly taken back."""
    shares = [c.toward_base for c in evidence.changes if c.relative > 0.0]
    return evidence.base is not None and bool(shares) and float(np.median(shares)) < HALF


class _Answer:
    """Builds the Comparison: one method for each way the order of thought can end."""

    def __init__(self, evidence: Evidence, calibration: Calibration) -> None:
        self.evidence, self.calibration = evidence, calibration
        changed = learned(evidence.changes, calibration, exact=evidence.exact_gauge)
        self.learned = changed if changed.matrices else learned(evidence.stacks, calibration)

    def say(
        self, relation: Relation, confidence: float, accusation: float, why: str, *,
        transforms: Sequence[str] = (), parents: Sequence[Parent] | None = None,
    ) -> Comparison:  # fmt: skip
        e = self.evidence
        related = relation not in (Relation.INDEPENDENT, Relation.INCONCLUSIVE)
        if parents is None:
            parents = (Parent(e.reference, 1.0),) if related else ()
        return Comparison(
            relation=relation,
            confidence=confidence,
            false_accusation_probability=accusation if relation.copy else 1.0,
            candidate=e.candidate,
            reference=e.reference,
            depth=e.depth,
            algorithm=f"{ALGORITHM}/{self.calibration.digest}",
            why=why,
            parents=tuple(parents),
            transforms=tuple(dict.fromkeys((*e.transforms, *transforms))),
            coverage=1.0 if relation is Relation.IDENTICAL else e.coverage,
            per_layer=per_layer(e),
            statistics={**e.statistics, **self._numbers()},
        )

    def apart(self) -> Comparison:
        return self.say(Relation.INDEPENDENT, 0.999, 1.0, "No tensor of the candidate carries the reference's values.")

    def untouched(self) -> Comparison:
        e = self.evidence
        if _mostly_base(e):
            return self._base_itself()
        names = [n for n in change_names(e) if not n.startswith(("noise", "sparse-noise", "adapter"))]
        if names and not all(n.startswith("cast:") for n in names):
            return self.say(
                Relation.PERTURBED, 1.0, 0.0, f"Exactly the reference with {', '.join(names)}.", transforms=names
            )
        if symmetric := self._symmetric():
            return self.say(Relation.EQUIVALENT, 1.0, 0.0, f"Undoing {symmetric} gives the reference.")
        return self.say(Relation.IDENTICAL, 1.0, 0.0, "Every value is the reference's; names or layout differ.")

    def merged(self, mix: Mix) -> Comparison:
        parents = [Parent(d, w) for d, w in sorted(mix.parents, key=lambda p: -p[1]) if abs(w) >= MIN_WEIGHT]
        return self.say(
            Relation.MERGED, 1.0 - mix.residual, 1.0,
            f"A weighted sum of {len(parents)} known models reproduces the candidate up to {mix.residual:.1%}.",
            parents=parents,
        )  # fmt: skip

    def changed(self) -> Comparison:
        """Whole, different, not a mixture: was the change drawn, or learned?"""
        accusation = self.learned.accusation
        names = change_names(self.evidence)
        if self._only_cast():
            return self._rounded(names)
        if self.learned.matrices == 0:
            return self._vectors_only(names)
        if accusation <= ACCUSE and self._looks_drawn() and self._near():
            return self._drawn(accusation, names)
        adapter = self._adapter()
        if adapter is not None and adapter <= ACCUSE:
            return self._drawn(adapter, names)
        if self.learned.certain or self.learned.fraction >= 0.5:
            return self._derived(names)
        return self.say(
            Relation.INCONCLUSIVE, 0.5, 1.0,
            "The change is neither clearly drawn at random nor clearly learned.", transforms=names,
        )  # fmt: skip

    def _rounded(self, names: Sequence[str]) -> Comparison:
        """The same values through another dtype; where a symmetry had to be undone for it, not in the same places."""
        if symmetric := self._symmetric():
            why = f"Undoing {symmetric} gives the reference, rounded."
            return self.say(Relation.EQUIVALENT, 1.0, 0.0, why, transforms=names)
        return self.say(Relation.IDENTICAL, 1.0, 0.0, "Every value is the reference's, rounded.", transforms=names)

    def _symmetric(self) -> str:
        """Symmetries that were undone, in words."""
        return ", ".join(t for t in self.evidence.transforms if t in SYMMETRIES)

    def _looks_drawn(self) -> bool:
        """Whether the remaining coherence is what chance leaves, and not merely less than learning shows.

        Where every changed matrix was reproduced from the reference by a named scheme, a little more is left to the few
        values in a hundred that round the other way.
        """
        if self.evidence.exact_gauge:
            mean = DRAWN_STOUFFER / math.sqrt(max(self.learned.matrices, 1))
            if self.evidence.depth is Depth.FULL and all(c.kind for c in telling(self.evidence.changes)):
                mean = DRAWN_UNDONE
            return self.learned.fraction == 0.0 and self.learned.score <= math.log(mean)
        return self.learned.fraction <= STRAY_UNDONE and self.learned.score <= math.log(DRAWN_UNDONE)

    def _near(self) -> bool:
        """Whether a fingerprint can tell: what lies far toward a base may hold another's change, hidden under noise."""
        shares = [c.toward_base for c in self.evidence.changes if c.relative > 0.0]
        return self.evidence.depth is Depth.FULL or not shares or float(np.median(shares)) > FAR

    def _only_cast(self) -> bool:
        """Whether every difference is a rounding to another dtype, reproduced entry by entry."""
        e = self.evidence
        live = [c for c in (*e.changes, *e.vectors) if c.relative > 0.0]
        return bool(live) and all(c.kind is not None and c.kind.startswith("cast:") for c in live)

    def _adapter(self) -> float | None:
        """False-accusation probability of calling a low-rank change drawn: it points nowhere. None if unknown."""
        gain, overlap = self.evidence.gain, self.evidence.overlap
        if gain is None and overlap is not None:
            return self.calibration.tail("overlap").below(math.log(max(*overlap, CHANCE)))
        if gain is None:
            return None
        return self.calibration.tail("gain").below(math.log(max(min(gain), 1.0)))

    def _vectors_only(self, names: Sequence[str]) -> Comparison:
        e = self.evidence
        symmetric = [t for t in e.transforms if t in SYMMETRIES]
        if symmetric and total(e.changes) <= self.calibration.thresholds["equivalent"] and not _loose(e):
            return self.say(
                Relation.EQUIVALENT, 1.0 - ROUNDED, ROUNDED,
                f"Undoing {', '.join(symmetric)} gives the reference up to rounding, entry by entry.",
            )  # fmt: skip
        if any(c.kind for c in e.changes):
            kinds = ", ".join(names)
            return self.say(
                Relation.PERTURBED, 1.0, 0.0, f"The reference after {kinds}, value for value.", transforms=names
            )
        return self.say(
            Relation.INCONCLUSIVE, 0.5, 1.0,
            "Only norms or biases differ, too few numbers to tell training from noise.", transforms=names,
        )  # fmt: skip

    def _base_itself(self) -> Comparison:
        return self.say(
            Relation.DERIVED,
            0.99,
            1.0,
            "The candidate holds less than half of the reference's change: it is nearer to the base.",
        )

    def _drawn(self, accusation: float, names: Sequence[str]) -> Comparison:
        e = self.evidence
        if _mostly_base(e):
            return self._base_itself()
        named = [n for n in names if not n.startswith(("noise", "sparse-noise"))]
        if not e.exact_gauge and _rounding_alone(e, self.calibration.thresholds["equivalent"]) and not named:
            undone = ", ".join(t for t in e.transforms if t in SYMMETRIES) or "a change of gauge"
            return self.say(
                Relation.EQUIVALENT, 1.0 - accusation, accusation,
                f"Undoing {undone} gives the reference up to rounding ({total(e.changes):.1e}).",
            )  # fmt: skip
        return self.say(
            Relation.PERTURBED, 1.0 - accusation, accusation,
            f"The reference with {', '.join(names) or 'a change'} that carries no trace of learning.",
            transforms=names,
        )  # fmt: skip

    def _derived(self, names: Sequence[str]) -> Comparison:
        e = self.evidence
        if e.base is not None and e.base.candidate > 0.0 and e.base.reference > 0.0:
            contains = e.base.onto_reference >= HELD
            contained = e.base.onto_candidate >= HELD
            if not contains and not contained:
                return self.say(
                    Relation.SIBLING, 0.99, 1.0,
                    "Both descend from the base, and neither holds all of the other's change "
                    f"(cosine of the two changes {e.base.cosine:.2f}).",
                )  # fmt: skip
        return self.say(
            Relation.DERIVED, 0.99, 1.0,
            f"The reference's weights with a learned change of {total(e.changes):.2g} relative size.",
            transforms=[n for n in names if not n.startswith(("noise", "sparse-noise"))],
        )  # fmt: skip

    def _numbers(self) -> dict[str, float]:
        e, drawn = self.evidence, self.learned
        numbers = {
            "learned.score": drawn.score,
            "learned.matrices": float(drawn.matrices),
            "learned.fraction": drawn.fraction,
            "learned.effective": drawn.effective,
            "delta": total(e.changes),
        }
        if e.base is not None:
            numbers |= {
                "base.cosine": e.base.cosine,
                "base.onto_reference": e.base.onto_reference,
                "base.onto_candidate": e.base.onto_candidate,
            }
        if e.gain is not None:
            numbers |= {"gain.inputs": e.gain[0], "gain.gradients": e.gain[1]}
        if e.overlap is not None:
            numbers |= {"overlap.readers": e.overlap[0], "overlap.writers": e.overlap[1]}
        if e.mix is not None:
            numbers["mix.residual"] = e.mix.residual
        return numbers


SYMMETRIES = frozenset(
    {
        "folded:norms", "regained:norms", "rotated:residual", "rescaled:residual", "permuted:residual", "permuted:mlp",
        "rescaled:mlp", "split:mlp", "permuted:heads", "mixed:value-output", "rotated:query-key", "rescaled:query-key",
        "permuted:experts", "padded:vocabulary", "permuted:vocabulary", "shifted:head", "appended:identity-layers",
        "mixed:query-key", "shifted:biases",
    }
)  # fmt: skip
"""Transforms that keep the function but change the values or their places (2-weights section 4)."""


def _rounding_alone(evidence: Evidence, limit: float) -> bool:
    """Whether what is left is no more than rounding after a change of gauge: nothing where no gauge was changed."""
    if total(evidence.changes) > limit:
        return False
    if evidence.depth is not Depth.SKETCH:
        return True
    loose = [c for c in evidence.changes if c.rounding == 0.0]
    moved = [c for c in evidence.changes if c.rounding > 0.0]
    return all(c.residual <= NEGLIGIBLE for c in loose) and total(moved) <= ROUNDINGS * max(
        (c.rounding for c in moved), default=0.0
    )


ROUNDINGS = 2.5
"""Several transforms round several times."""

ROUNDED = 1e-6
"""False-accusation probability where every entry lies within rounding of the undone reference: no model of training
puts it there, and none was seen; not zero, since it is no identity."""


def _loose(evidence: Evidence) -> bool:
    """Whether norms or biases differ by more than rounding, and by more than a gauge leaves open."""
    if evidence.exact_gauge:
        return any(c.residual > NEGLIGIBLE for c in evidence.vectors)
    return any(c.residual > 10 * NEGLIGIBLE for c in evidence.vectors if c.slot.role not in FREE_BIASES)


FREE_BIASES = (Role.KEY_BIAS, Role.HEAD_BIAS)
"""Softmax takes out what a key bias adds to all keys, and what is added to all logits."""


def _merged(evidence: Evidence) -> Mix | None:
    """The mixture, when two or more known models are needed and together they leave almost nothing."""
    mix = evidence.mix
    if mix is None or mix.residual > MIXED:
        return None
    return mix if sum(abs(w) >= MIN_WEIGHT for _, w in mix.parents) >= 2 else None


def _lost_layers(evidence: Evidence) -> bool:
    """Whether whole layers of the reference are absent from the candidate."""
    kept = {c.slot.layer for c in evidence.changes}
    return any(s.layer >= 0 and s.layer not in kept for s, _ in evidence.missing)
