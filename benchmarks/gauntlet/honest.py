"""What is true of a pair of honest models, and which answers a comparison may honestly give to it.

The truth comes from how the models were made, never from their weights. Some truths cannot be seen in two checkpoints
alone: without the common base, two siblings look like parent and child. ``Truth.accepted`` says what is then right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.gauntlet.families import Family, ModelEntry
from fingerprint.compare.relation import Relation


@dataclass(frozen=True)
class Truth:
    """The expected outcome of comparing a candidate with a reference.

    Attributes:
        relation: The Relation that holds.
        base: Name of the nearest common ancestor, to be given as ``--base`` where a comparison is allowed one; None
            for independents, and where the ancestor is one of the two.
        accepted: Relations that are right when the base is given (or is not needed).
        accepted_without_base: Relations that are right when only the two checkpoints are at hand.
    """

    relation: Relation
    base: str | None
    accepted: frozenset[Relation]
    accepted_without_base: frozenset[Relation]

    @property
    def copy(self) -> bool:
        """Whether calling it a copy would be right."""
        return self.relation.copy


def ancestors(entry: ModelEntry, models: Mapping[str, ModelEntry]) -> tuple[str, ...]:
    """Names from the model itself back to its root."""
    line = [entry.name]
    while models[line[-1]].parents:
        line.append(models[line[-1]].parents[0])
    return tuple(line)


def relation_truth(candidate: ModelEntry, reference: ModelEntry, models: Mapping[str, ModelEntry]) -> Truth:
    """What ``candidate`` is to ``reference``.

    Args:
        candidate: The model in question.
        reference: The known model.
        models: The family's models by name (ignored when the two are of different families or splits).

    Returns:
        ``identical`` for a model and itself; ``derived`` when one descends from the other (the direction cannot be seen
        in weights, and the earlier claim decides it); ``sibling`` for a common ancestor; else ``independent``. Two
        siblings of a distant base may also honestly be called ``derived`` when that base is not at hand.
    """
    if (candidate.family, candidate.split) != (reference.family, reference.split):
        return _truth(Relation.INDEPENDENT, None)
    if candidate.name == reference.name:
        return _truth(Relation.IDENTICAL, None)
    ours, theirs = ancestors(candidate, models), ancestors(reference, models)
    if reference.name in ours or candidate.name in theirs:
        return _truth(Relation.DERIVED, None)
    common = next((name for name in ours if name in theirs), None)
    if common is None:
        return _truth(Relation.INDEPENDENT, None)
    return _truth(Relation.SIBLING, common, {Relation.DERIVED})


def _truth(relation: Relation, base: str | None, also: set[Relation] | None = None) -> Truth:
    return Truth(relation, base, frozenset({relation}), frozenset({relation} | (also or set())))


def pairs(family: Family) -> Iterator[tuple[ModelEntry, ModelEntry, Truth]]:
    """Every ordered pair of different models of a family, none of them a copy: (candidate, reference, truth)."""
    for candidate in family.models.values():
        for reference in family.models.values():
            if candidate.name != reference.name:
                yield candidate, reference, relation_truth(candidate, reference, family.models)
