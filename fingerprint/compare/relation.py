"""The outcome of a comparison: one Relation, and the evidence that carries it (design/1-architecture, Words)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Relation(StrEnum):
    """What a candidate is to a reference."""

    IDENTICAL = "identical"
    EQUIVALENT = "equivalent"
    PERTURBED = "perturbed"
    DERIVED = "derived"
    MERGED = "merged"
    SIBLING = "sibling"
    PARTIAL = "partial"
    INDEPENDENT = "independent"
    INCONCLUSIVE = "inconclusive"

    @property
    def copy(self) -> bool:
        """Whether the relation is of the copy class: nothing was learned."""
        return self in COPY_CLASS


COPY_CLASS = frozenset({Relation.IDENTICAL, Relation.EQUIVALENT, Relation.PERTURBED})


class Depth(StrEnum):
    """How much was at hand: fingerprints alone, or both checkpoints."""

    SKETCH = "sketch"
    FULL = "full"


@dataclass(frozen=True)
class Parent:
    """A known model the candidate is made of: content root and its weight in a linear combination."""

    digest: str
    weight: float


@dataclass(frozen=True)
class LayerEvidence:
    """Evidence for one layer (or one group outside the layers, e.g. ``embed``).

    Attributes:
        name: ``embed``, ``0`` .. ``n-1``, ``head``, or a tensor name on the generic path.
        similarity: Cosine with the reference after undoing transforms, in [-1, 1].
        delta: Relative norm |candidate - reference| / |reference| after undoing transforms.
        explained: Fraction of this group's parameters matched to the reference.
    """

    name: str
    similarity: float
    delta: float
    explained: float


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` says. The contract's JSON is ``as_json``.

    Attributes:
        relation: The Relation.
        confidence: Confidence in the relation, [0, 1].
        false_accusation_probability: Probability that a non-copy gives evidence this copy-like (calibrated);
            1.0 when the relation is not of the copy class.
        parents: Known models it is made of.
        transforms: What was undone or found, in the contract's words.
        coverage: Fraction of candidate parameters explained by the parents.
        per_layer: Evidence by layer.
        candidate: Content root of the candidate.
        reference: Content root of the reference.
        depth: ``sketch`` or ``full``.
        algorithm: Name of the comparison algorithm and calibration digest.
        statistics: The numbers that decided, by name.
        why: One sentence for a person.
    """

    relation: Relation
    confidence: float
    false_accusation_probability: float
    candidate: str
    reference: str
    depth: Depth
    algorithm: str
    why: str
    parents: tuple[Parent, ...] = ()
    transforms: tuple[str, ...] = ()
    coverage: float = 0.0
    per_layer: tuple[LayerEvidence, ...] = ()
    statistics: Mapping[str, float] = field(default_factory=dict)

    @property
    def copy(self) -> bool:
        """Whether the relation is of the copy class."""
        return self.relation.copy

    def as_json(self) -> dict[str, Any]:
        """The document of ``compare --json`` (without ``seconds``, which the caller measures)."""
        return {
            "relation": self.relation.value,
            "copy": self.copy,
            "confidence": _round(self.confidence),
            "false_accusation_probability": _round(self.false_accusation_probability),
            "parents": [{"digest": p.digest, "weight": _round(p.weight)} for p in self.parents],
            "transforms": list(self.transforms),
            "coverage": _round(self.coverage),
            "per_layer": [
                {
                    "layer": e.name,
                    "similarity": _round(e.similarity),
                    "delta": _round(e.delta),
                    "explained": _round(e.explained),
                }
                for e in self.per_layer
            ],
            "statistics": {k: _round(v) for k, v in sorted(self.statistics.items()) if math.isfinite(v)},
            "candidate": self.candidate,
            "reference": self.reference,
            "depth": self.depth.value,
            "algorithm": self.algorithm,
            "why": self.why,
        }


def _round(value: float) -> float:
    """Six significant digits: stable across machines and thread counts, and more than any threshold needs."""
    return float(f"{value:.6g}")
