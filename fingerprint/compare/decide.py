"""From evidence to one Relation. Pure: the same evidence and calibration give the same answer, byte for byte.

Order of thought (issue Fingerprint): same content? same after undoing a symmetry? linear in known models? partly?
then what is the change: drawn, or learned? else independent. A copy is only ever called when the absence of learning
is shown; whatever is merely related stays out of the copy class.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.architecture.interface import Role
from fingerprint.compare.calibration import Calibration
from fingerprint.compare.evidence import Evidence, Mix, Same, SlotChange
from fingerprint.compare.relation import Comparison, Depth, LayerEvidence, Parent, Relation

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


@dataclass(frozen=True)
class Learned:
    """How much learning the remaining changes show, over all channels they were measured by.

    Attributes:
        score: Log of the mean coherence z over changed matrices, floored at chance; the largest channel's.
        accusation: Probability that a learned change shows as little coherence; the largest channel's.
        certain: Whether some channel shows at least the least coherence of any honest change in calibration.
        matrices: Number of changed matrices it rests on.
        fraction: Fraction of changed matrices with coherence beyond any drawn change.
        effective: Median number of entries that carry a matrix's change.
    """

    score: float
    accusation: float
    certain: bool
    matrices: int
    fraction: float
    effective: float


def learned(changes: Sequence[SlotChange], calibration: Calibration, *, exact: bool = True) -> Learned:
    """Aggregate coherence over matrices that still differ beyond an exact zero, channel by channel.

    Args:
        changes: Matched matrices.
        calibration: Tails by channel.
        exact: Whether they lie in the reference's own gauge.
    """
    live = telling(changes)
    if not live:
        return Learned(0.0, 1.0, False, 0, 0.0, 0.0)
    score, accusation, certain = -math.inf, 0.0, False
    for channel in sorted({c.channel for c in live}):
        members = [c for c in live if c.channel == channel]
        here, tail = channel_score(members, exact=exact), calibration.tail(channel)
        score, accusation = max(score, here), max(accusation, tail.below(here))
        certain |= here >= tail.least and here > math.log(DRAWN_STOUFFER / math.sqrt(len(members)))
    cut = calibration.thresholds["coherent"]
    return Learned(
        score=score,
        accusation=accusation,
        certain=certain,
        matrices=len(live),
        fraction=float(np.mean([c.coherence.z > cut for c in live])),
        effective=float(np.median([c.coherence.effective for c in live])),
    )


NEGLIGIBLE = 1e-5
"""Relative size of a change below any training step that bf16, or float32 at a usual rate, can record."""

TABLE_MATTERS = 3.0
"""Vocabulary tables are left out unless they changed this much more than the other matrices: many of their rows are
near-copies of one another (tokens hardly met in training), and these round alike without having learned anything."""


DRAWN_STOUFFER = 4.0
"""Largest mean z times sqrt(matrices) of a drawn change in the reference's own gauge, where it is standard normal. An
honest light update that was then quantised or pruned starts at 10 (calibration families)."""

DRAWN_UNDONE = 3.5
"""Largest mean z of a drawn change after a gauge was undone: what fitted transforms leave is a little coherent."""

STRAY_UNDONE = 0.15
"""Share of matrices that may look coherent after a change of gauge was undone: factors near a power of two round in
patterns. In the reference's own gauge not one may, or training of a single layer could hide under noise."""


def telling(changes: Sequence[SlotChange]) -> list[SlotChange]:
    """The changes that can tell drawn from learned: more than nothing, and no vocabulary tables beside matrices."""
    live = [c for c in changes if c.residual > NEGLIGIBLE and c.coherence.effective > 0.0]
    inner = [c for c in live if c.slot.role not in TABLES]
    if len(inner) < TABLES_APART:
        return live
    usual = float(np.median([c.residual for c in inner]))
    return [c for c in live if c.slot.role not in TABLES or c.residual > TABLE_MATTERS * usual]


def channel_score(changes: Sequence[SlotChange], *, exact: bool = True) -> float:
    """Log of the mean coherence z of changes measured by one channel, with a floor where z is no more than chance.

    Every matrix of a drawn change has a standard normal z of its own, so the mean of n has a deviation of 1 / sqrt(n):
    the more matrices, the lower the floor. Where a gauge was undone, the most coherent few are left out (see
    ``STRAY_UNDONE``).
    """
    z = np.sort([c.coherence.z for c in changes])
    kept = z if exact else z[: max(1, z.size - int(STRAY_UNDONE * z.size))]
    return math.log(max(float(kept.mean()), CHANCE / math.sqrt(kept.size)))


CHANCE = 1.0
"""Combined z (mean times sqrt(matrices)) that chance alone gives; below it all scores are equal."""

TABLES_APART = 4
"""Other matrices that must have changed for vocabulary tables to be left out."""

TABLES = (Role.EMBED, Role.HEAD)


def decide(evidence: Evidence, calibration: Calibration) -> Comparison:
    """The Relation that ``evidence`` supports.

    Args:
        evidence: What was measured.
        calibration: Tails and thresholds.
    """
    answer = _Answer(evidence, calibration)
    if evidence.same is not Same.NO:
        return answer.say(Relation.IDENTICAL, 1.0, 0.0, "The values are the same; only their packaging may differ.")
    coverage = evidence.coverage
    if not evidence.changes or coverage < PART:
        return answer.apart()
    if coverage < SEEDED and all(c.slot.role is Role.OTHER for c in evidence.changes):
        return answer.say(
            Relation.INCONCLUSIVE, 0.9, 1.0,
            f"Only {coverage:.0%} of the parameters agree ({_names(evidence)}): a common initial seed does that too.",
        )  # fmt: skip
    if coverage < WHOLE or _lost_layers(evidence):
        return answer.say(
            Relation.PARTIAL, 0.99, 1.0,
            f"{coverage:.0%} of the candidate's parameters come from the reference: {_names(evidence)}.",
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
        symmetric = [t for t in e.transforms if t in SYMMETRIES]
        if symmetric:
            return self.say(
                Relation.EQUIVALENT, 1.0, 0.0,
                f"Undoing {', '.join(symmetric)} gives the reference.",
            )  # fmt: skip
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
            return self.say(Relation.IDENTICAL, 1.0, 0.0, "Every value is the reference's, rounded.", transforms=names)
        if self.learned.matrices == 0:
            return self._vectors_only(names)
        if accusation <= ACCUSE and self._looks_drawn():
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


def total(changes: Sequence[SlotChange]) -> float:
    """Relative size of what is left over all matrices: root of summed energies, each weighted by its parameters."""
    energy = sum(c.numel * c.residual**2 for c in changes)
    count = sum(c.numel for c in changes)
    return math.sqrt(energy / count) if count else 0.0


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


SCALED = 2e-3
"""Smallest common factor that is called scaling; weight decay of an honest run stays below it or is not alone."""


def change_names(evidence: Evidence) -> list[str]:
    """Contract words for what was done, most of the parameters first."""
    live = [c for c in evidence.changes if c.relative > 0.0] or [c for c in evidence.stacks if c.relative > 0.0]
    if not live:
        return []
    names: list[str] = []
    kinds = Counter[str]()
    for c in live:
        if c.kind:
            kinds[c.kind.split(":")[0]] += c.numel
    size = sum(c.numel for c in live)
    for kind, count in kinds.most_common(1):
        if count >= 0.3 * size:
            names.append(_kind_name(kind, live))
    scale = _median([c.scale for c in live])
    base = _median([c.toward_base for c in live])
    if abs(base) > 0.01 and evidence.base is not None:
        names.append(f"interpolated:{-base:.2g}" if base < 0 else f"amplified:{1 + base:.3g}")
    elif abs(scale) > SCALED and not kinds:
        names.append(f"scaled:{1 + scale:.4g}")
    left = total(live)
    changed = _median([c.changed for c in live])
    rank = _median([c.rank for c in live])
    if not names and left > 0.0:
        if rank <= 0.17:
            names.append(f"adapter:random:{_rank_number(live)}")
        elif changed < 0.15 and evidence.exact_gauge and evidence.depth is Depth.FULL:
            names.append(f"sparse-noise:{changed:.2g}")
        elif not all(c.still for c in live):
            names.append(f"noise:{left:.2g}")
    return names


def _rank_number(live: Sequence[SlotChange]) -> int:
    return max(1, round(_median([c.rank * math.sqrt(c.numel) for c in live])))


def _kind_name(kind: str, live: Sequence[SlotChange]) -> str:
    """The commonest full name of ``kind``; pruned fractions are averaged."""
    full = [c for c in live if c.kind and c.kind.split(":")[0] == kind]
    if kind == "pruned":
        mean = sum(float(str(c.kind).split(":")[1]) * c.numel for c in full) / sum(c.numel for c in full)
        return f"pruned:{mean:.2g}"
    return Counter(str(c.kind) for c in full).most_common(1)[0][0]


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else 0.0


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


def _names(evidence: Evidence, limit: int = 6) -> str:
    """What is shared, in words: layers as a range count, the rest by role or tensor name."""
    loose = [c.slot.name or c.slot.role.value for c in evidence.changes if c.slot.layer < 0]
    layers = sorted({c.slot.layer for c in evidence.changes if c.slot.layer >= 0})
    parts = loose[:limit] + ([f"layers {', '.join(map(str, layers))}"] if layers else [])
    return ", ".join(parts) or "nothing"


def per_layer(evidence: Evidence) -> tuple[LayerEvidence, ...]:
    """Similarity, delta and explained fraction of each layer and of each group outside the layers."""
    groups: dict[str, list[SlotChange]] = {}
    lost: Counter[str] = Counter()
    for c in evidence.changes:
        groups.setdefault(_group(c), []).append(c)
    for slot, count in evidence.unmatched:
        lost[str(slot.layer) if slot.layer >= 0 else slot.name or slot.role.value] += count
    rows = []
    for name in sorted({*groups, *lost}, key=_order):
        members = groups.get(name, [])
        size = sum(c.numel for c in members)
        rows.append(
            LayerEvidence(
                name,
                sum(c.similarity * c.numel for c in members) / size if size else 0.0,
                math.sqrt(sum(c.relative**2 * c.numel for c in members) / size) if size else 1.0,
                size / (size + lost[name]) if size + lost[name] else 0.0,
            )
        )
    return tuple(rows)


def _group(change: SlotChange) -> str:
    return str(change.slot.layer) if change.slot.layer >= 0 else change.slot.name or change.slot.role.value


def _order(name: str) -> tuple[int, int, str]:
    """Embeddings first, then layers by number, then the rest."""
    if name.isdigit():
        return (1, int(name), name)
    return (0 if name.startswith(("embed", "position", "token")) else 2, 0, name)
