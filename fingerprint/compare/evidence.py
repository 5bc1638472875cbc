"""What was measured between a candidate and a reference, before anything is concluded from it.

Gathering (``full``, ``sketch``) and concluding (``decide``) are apart so that a conclusion can be replayed from its
evidence, tested on made-up evidence, and calibrated without reading a checkpoint twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fingerprint.architecture.interface import Slot
from fingerprint.compare.relation import Depth
from fingerprint.compare.structure import Coherence


class Same(StrEnum):
    """Which content identity matched, strongest first."""

    CONTENT = "content"  # same names, same bytes
    NAMELESS = "nameless"  # same bytes under other names
    VALUES = "values"  # same after rounding to bf16
    NAMELESS_VALUES = "nameless-values"
    MULTISET = "multiset"  # same values in another axis order
    NO = "no"


@dataclass(frozen=True)
class SlotChange:
    """One matched tensor: the candidate in the reference's gauge, against the reference.

    Attributes:
        slot: Where it stands in the reference.
        numel: Parameters.
        similarity: Cosine.
        relative: |C - R| / |R|.
        rounding: Relative size that storage rounding alone would leave.
        changed: Fraction of entries that differ (1.0 where only a sketch is at hand).
        scale: Coefficient of the delta on R (0.01 for a matrix multiplied by 1.01).
        toward_base: Coefficient of the delta on R - B; 0 without a base.
        residual: Relative norm of what these two leave.
        coherence: Sign coherence of what they leave.
        kind: Name of a drawn change where one was recognised (``quantised:int8``, ``pruned:0.1``).
        rank: Numerical rank of what is left, as a fraction of full rank (1.0 where not measured).
        channel: How it was measured: ``full``, ``sketch-64`` (side) or ``kinship``; names the calibrated tail.
    """

    slot: Slot
    numel: int
    similarity: float
    relative: float
    rounding: float
    changed: float
    scale: float
    toward_base: float
    residual: float
    coherence: Coherence
    kind: str | None = None
    rank: float = 1.0
    channel: str = "full"

    @property
    def still(self) -> bool:
        """Nothing left but rounding."""
        return self.residual <= 1.5 * self.rounding


@dataclass(frozen=True)
class BaseGeometry:
    """Where candidate and reference stand around a known base (delta space).

    Attributes:
        cosine: cos(C - B, R - B).
        onto_reference: Coefficient of C - B on R - B: about 1 when the candidate contains all of the parent's change.
        onto_candidate: Coefficient of R - B on C - B: about 1 when the reference contains all of the candidate's.
        candidate: |C - B| / |B|.
        reference: |R - B| / |B|.
    """

    cosine: float
    onto_reference: float
    onto_candidate: float
    candidate: float
    reference: float


@dataclass(frozen=True)
class Mix:
    """Best convex combination of known models: content roots with weights, and what it leaves (see ``regress``)."""

    parents: tuple[tuple[str, float], ...]
    residual: float


@dataclass(frozen=True)
class Evidence:
    """Everything ``decide`` needs.

    Attributes:
        candidate: Content root.
        reference: Content root.
        depth: Where the numbers come from.
        same: Content identity that matched.
        transforms: Transforms undone, in the contract's words.
        exact_gauge: Only relabelling was undone (names, permutations, casts), so that an untouched copy has delta 0.
        changes: Matched matrices.
        vectors: Matched 1-D tensors.
        stacks: Changes of norms and biases, stacked over layers; they decide where no matrix changed.
        unmatched: Candidate slots without a counterpart, with their parameter counts.
        missing: Reference slots without a counterpart, with their parameter counts.
        base: Delta-space geometry, when a base was given.
        mix: Best combination of known models, when more than one was given.
        gain: Mean z of the deltas' gains on real inputs and on output gradients; None where it was not measured.
        overlap: Mean z of the overlap of changes of readers and of writers in the stream they share, at sketch depth;
            None where it was not measured.
        statistics: Further named numbers for the report.
        blind: Why nothing can be concluded from values, where that is so.
    """

    candidate: str
    reference: str
    depth: Depth
    same: Same = Same.NO
    transforms: tuple[str, ...] = ()
    exact_gauge: bool = True
    changes: tuple[SlotChange, ...] = ()
    vectors: tuple[SlotChange, ...] = ()
    stacks: tuple[SlotChange, ...] = ()
    unmatched: tuple[tuple[Slot, int], ...] = ()
    missing: tuple[tuple[Slot, int], ...] = ()
    base: BaseGeometry | None = None
    mix: Mix | None = None
    gain: tuple[float, float] | None = None
    overlap: tuple[float, float] | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)
    blind: str = ""

    @property
    def coverage(self) -> float:
        """Fraction of candidate parameters that have a counterpart."""
        matched = sum(c.numel for c in self.changes) + sum(c.numel for c in self.vectors)
        total = matched + sum(n for _, n in self.unmatched)
        return matched / total if total else 0.0
