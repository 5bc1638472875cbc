"""What the service itself measures between two models that it knows, by their fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from attest.predicates.lineage import Made

from ..known.index import Index
from ..known.registry import Registry
from ..store.blobs import Blobs

if TYPE_CHECKING:
    from fingerprint.compare import Comparison, Source

    from ..known.claim import KnownModel

NEAR = 16
"""Known models that are looked through for a common base, and for further parents of a merge."""
PARENTS = 8


@dataclass(frozen=True)
class Measured:
    """A relation of a child to a parent, as measured.

    Args:
        relation: Its name; None when one of the two is not known here.
        parents: Content roots of the models of a measured merge.
        evidence: Digest of the evidence bundle, with which anybody can recompute it.
    """

    relation: str | None
    parents: tuple[str, ...] = ()
    evidence: str | None = None


class Relations(Protocol):
    """Whoever can measure."""

    def measure(self, child: str, parent: str, *, made: Made) -> Measured:
        """The relation of ``child`` to ``parent``, both by content root."""
        ...


class KnownRelations:
    """Relations between registered models, at sketch depth: fingerprints are all that is kept of most.

    Args:
        registry: Known models.
        index: Finds the base both may come from.
        blobs: Where evidence goes.
    """

    def __init__(self, registry: Registry, index: Index, blobs: Blobs) -> None:
        self._registry, self._index, self._blobs = registry, index, blobs

    def measure(self, child: str, parent: str, *, made: Made) -> Measured:
        """Compare the two, with the public base they share and, for a declared merge, further parents."""
        known = {model.content_root: model for model in self._registry.by_root([child, parent])}
        if child not in known or parent not in known:
            return Measured(None)
        from fingerprint.compare import Depth, Source, load_calibration

        from .. import evidence

        ours = Source(self._registry.fingerprint(known[child]))
        theirs = Source(self._registry.fingerprint(known[parent]))
        near = [m for m in self._near(ours) if m.content_root not in (child, parent)]
        merged = made is Made.MERGED and not known[parent].is_base
        others = [m for m in near if not m.is_base][:PARENTS] if merged else []
        inputs = evidence.Inputs(
            candidate=ours,
            reference=theirs,
            calibration=load_calibration(),
            base=None if known[parent].is_base else self._base(ours, near),
            known=tuple(Source(self._registry.fingerprint(m)) for m in others),
        )
        found = inputs.compare(Depth.SKETCH)
        return Measured(found.relation.value, _parents(found), self._blobs.put(evidence.make(found, inputs)))

    def _near(self, source: Source) -> list[KnownModel]:
        return self._registry.get(self._index.candidates(source.fingerprint, NEAR))

    def _base(self, child: Source, near: list[KnownModel]) -> Source | None:
        """The nearest public model that the child descends from: against it, siblings and children part company."""
        from fingerprint.compare import Depth, Source, compare

        from ..known.identify import DESCENT

        for model in near:
            if model.is_base:
                base = Source(self._registry.fingerprint(model))
                if compare(child, base, depth=Depth.SKETCH).relation in DESCENT:
                    return base
        return None


def _parents(found: Comparison) -> tuple[str, ...]:
    return tuple(parent.digest for parent in found.parents)
