"""Identify: which known model is this, verified, and whose is it?

Search proposes, comparison decides. Proposed models are ordered by a distance on whole fingerprints; the nearest, and
the earliest claims among all that are close, are compared. A public base that the candidate descends from serves as
the base of the other comparisons, so that a copy of a fine-tune and a sibling of it part company. Where weights are
at hand, and still are what was registered, the nearest are compared once more at full depth.

Among copies the earliest claim is the one copied from. Claims of the candidate's own hotkey, and claims that cannot be
shown to be earlier than the candidate's, are listed and accuse nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fingerprint.compare import Calibration, Comparison, Depth, Relation, Source
from fingerprint.compare.rank import distance
from fingerprint.errors import FingerprintError
from fingerprint.fingerprint import Fingerprint

from ..errors import ForensicsError
from ..evidence import Inputs
from .claim import Claim, KnownModel, Role, Submission, precedence
from .index import Index
from .registry import Registry

NEAREST = 5  # models compared for being nearest
EARLIEST = 5  # models compared for being claimed first among those that are close
CLOSE = 0.05  # mean squared relative distance below which a model may be a copy (noise of a fifth: .04)
FULL_NEAREST, FULL_EARLIEST = 3, 1  # models compared again with weights
PARENTS = 8  # further known models tried as parents of a merge
PARENT_LEAST = 0.1  # weight from which a merge is told from this parent's side; copies of parents come after them
COINCIDE = 0.25  # of the candidate's distance: two models that differ by less cannot both be told to be parents
_TIER: Mapping[Relation, int] = {
    Relation.MERGED: 1,
    Relation.DERIVED: 1,
    Relation.PARTIAL: 1,
    Relation.INCONCLUSIVE: 1,  # with what is nearest undecided, descent from something farther is no answer
    Relation.SIBLING: 2,
    Relation.INDEPENDENT: 3,
}
DESCENT = frozenset({Relation.IDENTICAL, Relation.EQUIVALENT, Relation.PERTURBED, Relation.DERIVED})

OpenWeights = Callable[[KnownModel], Source | None]
"""Opens a model's registered weights; None when they are gone or are not what was registered."""


@dataclass(frozen=True)
class Match:
    """A known model and what the candidate is to it.

    Attributes:
        model: The known model.
        distance: Distance of the fingerprints (``fingerprint.compare.rank``).
        comparison: The verified relation.
        inputs: What the comparison was made from.
        counts: Whether somebody else may have been earlier; false for the candidate's own and for later claims.
    """

    model: KnownModel
    distance: float
    comparison: Comparison
    inputs: Inputs
    counts: bool

    @property
    def finding(self) -> bool:
        """Whether this is a copy of somebody else's earlier work."""
        return self.comparison.copy and self.counts


@dataclass(frozen=True)
class Identification:
    """What was found among the known models.

    Attributes:
        matches: Verified matches, the one that says what the candidate is first.
        searched: How many models are known.
        proposed: How many the search proposed.
        search_seconds: What the search took.
        skipped: Models that could not be compared, and why.
    """

    matches: tuple[Match, ...]
    searched: int
    proposed: int
    search_seconds: float
    skipped: tuple[str, ...] = ()

    @property
    def best(self) -> Match | None:
        """What the candidate is."""
        return self.matches[0] if self.matches else None

    @property
    def finding(self) -> bool:
        """Whether the candidate copies somebody's earlier work."""
        return any(match.finding for match in self.matches)

    @property
    def false_accusation_probability(self) -> float:
        """That of the best match times the number of comparisons made (Bonferroni): many tries find more."""
        return min(1.0, self.best.comparison.false_accusation_probability * len(self.matches)) if self.best else 1.0


class Identifier:
    """Search and verification against one registry.

    Args:
        registry: Known models.
        index: Search among them.
        calibration: For the comparisons.
        open_weights: Opens a model's weights for full depth; None keeps to sketch depth.
        clock: Seconds, for the report.
    """

    def __init__(
        self,
        registry: Registry,
        index: Index,
        *,
        calibration: Calibration,
        open_weights: OpenWeights | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._registry, self._index = registry, index
        self._calibration, self._open, self._clock = calibration, open_weights, clock

    def identify(
        self,
        candidate: Source,
        *,
        limit: int,
        nearest: int = NEAREST,
        claim: Claim | None = None,
        without: Iterable[int] = (),
    ) -> Identification:
        """Search, then verify.

        Args:
            candidate: The model in question; with weights where full depth is wanted.
            limit: How many models the search proposes.
            nearest: How many of the nearest are compared.
            claim: The candidate's own claim, when it has one.
            without: Models to leave out, such as the candidate itself where it is registered already.
        """
        began = self._clock()
        left_out = frozenset(without)
        ids = self._index.candidates(candidate.fingerprint, limit, without=left_out)
        crowd = [i for i in self._index.crowd(candidate.fingerprint) if i not in left_out]
        ids += [i for i in self._registry.earliest_of(crowd, EARLIEST) if i not in ids]
        seconds = self._clock() - began
        field = _Field(candidate, claim, self._calibration)
        for model in self._registry.get(ids):
            field.enter(model, lambda m: Source(self._registry.fingerprint(m), None))
        chosen = field.choose(nearest)
        matches = field.verify(chosen)
        if self._open is not None and candidate.checkpoint is not None:
            matches = self._deepen(field, matches)
        return Identification(tuple(matches), self._registry.count(), len(ids), seconds, tuple(field.skipped))

    def _deepen(self, field: _Field, matches: list[Match]) -> list[Match]:
        """The nearest once more, with weights, where these are at hand."""
        related = _undecided(matches)
        wanted = {m.model.id: m.model for m in related}
        wanted |= {m.id: m for m in field.parents(related)}
        if field.base is not None:
            wanted[field.base.id] = field.base
        for model in wanted.values():
            source = self._open(model) if self._open is not None else None
            if source is not None:
                field.weights[model.id] = source
        # A merge looks like descent when one of its parents is missing: without their weights the sketch stands.
        related = [m for m in related if all(p.id in field.weights for p in field.parents([m]))]
        again = {
            m.model.id: m for m in field.verify([m.model for m in related if m.model.id in field.weights], full=True)
        }
        return _ordered(again.get(m.model.id, m) for m in matches)


class _Field:
    """The models in the running, with what is known of each so far."""

    def __init__(self, candidate: Source, claim: Claim | None, calibration: Calibration) -> None:
        self._candidate, self._claim, self._calibration = candidate, claim, calibration
        self._plain = Source(candidate.fingerprint, None)
        self._models: dict[int, KnownModel] = {}
        self._sources: dict[int, Source] = {}
        self._distances: dict[int, float] = {}
        self.weights: dict[int, Source] = {}
        self.base: KnownModel | None = None
        self.skipped: list[str] = []

    def enter(self, model: KnownModel, load: Callable[[KnownModel], Source]) -> None:
        """Take a proposed model; one that cannot be read or compared is skipped with a reason, not fatal."""
        try:
            source = load(model)
            away = distance(self._candidate.fingerprint, source.fingerprint)
        except (ForensicsError, FingerprintError) as error:
            self.skipped.append(f"{model.content_root}: {error}")
            return
        self._models[model.id], self._sources[model.id], self._distances[model.id] = model, source, away

    def choose(self, nearest: int) -> list[KnownModel]:
        """The nearest, the earliest of the close, and the nearest base."""
        order = sorted(self._models.values(), key=lambda m: (self._distances[m.id], _first(m), m.id))
        close = [m for m in order if self._distances[m.id] <= CLOSE]
        bases = [m for m in order if m.is_base]
        chosen = [*order[:nearest], *sorted(close, key=_first)[:EARLIEST], *bases[:1]]
        return list({m.id: m for m in chosen}.values())

    def verify(self, chosen: Sequence[KnownModel], *, full: bool = False) -> list[Match]:
        """Compare with each, bases first, since the nearest one that fits becomes the base of the others."""
        matches = []
        for model in sorted(chosen, key=lambda m: (not m.is_base, self._distances[m.id], m.id)):
            try:
                match = self._compare(model, full=full)
            except FingerprintError as error:
                self.skipped.append(f"{model.content_root}: {error}")
                continue
            matches.append(match)
            if self.base is None and model.is_base and match.comparison.relation in DESCENT:
                self.base = model
        return _ordered(matches)

    def parents(self, matches: Iterable[Match]) -> list[KnownModel]:
        """Models that merges among ``matches`` are made of."""
        roots = {p.digest for m in matches if m.comparison.relation is Relation.MERGED for p in m.comparison.parents}
        return [m for m in self._models.values() if m.content_root in roots]

    def _compare(self, model: KnownModel, *, full: bool) -> Match:
        pool = self.weights if full else self._sources
        inputs = Inputs(
            candidate=self._candidate if full else self._plain,
            reference=pool[model.id],
            calibration=self._calibration,
            base=pool.get(self.base.id) if self.base is not None and self.base.id != model.id else None,
            known=tuple(pool[i] for i in self._relatives(model) if i in pool),
        )
        comparison = inputs.compare(Depth.FULL if full else Depth.SKETCH)
        counts = model.is_base or any(_earlier(s, self._claim) for s in model.submissions if s.active)
        return Match(model, self._distances[model.id], comparison, inputs, counts)

    def _relatives(self, model: KnownModel) -> list[int]:
        """Further possible parents of a merge with ``model``, nearest first: other submissions in its basis.

        Never a base, which would turn every pull toward it into a merge; and of models that nearly coincide only the
        one claimed first, for weights cannot be told apart between them.
        """
        if model.is_base:
            return []
        related = [m for m in self._models.values() if m.id != model.id and not m.is_base and self._distances[m.id] < 1]
        chosen: list[KnownModel] = []
        for other in sorted(related, key=_first):
            if self._apart(model, other) < 1 and not any(self._coincide(other, c) for c in chosen):
                chosen.append(other)
        return [m.id for m in sorted(chosen, key=lambda m: (self._distances[m.id], m.id))][:PARENTS]

    def _apart(self, one: KnownModel, other: KnownModel) -> float:
        """Distance of basis vectors: 0 for equal weights, about 1.4 in different bases."""
        return _between(self._sources[one.id].fingerprint, self._sources[other.id].fingerprint)

    def _coincide(self, one: KnownModel, other: KnownModel) -> bool:
        """Whether two models differ by much less than the candidate differs from them."""
        ours = _between(self._candidate.fingerprint, self._sources[one.id].fingerprint)
        return self._apart(one, other) < COINCIDE * ours


def _undecided(matches: Iterable[Match]) -> list[Match]:
    """Matches that weights can tell more about: the nearest, and the earliest claim among the close."""
    open_ = [m for m in matches if m.comparison.relation not in (Relation.IDENTICAL, Relation.INDEPENDENT) and m.counts]
    near = sorted(open_, key=lambda m: (m.distance, m.model.id))
    early = sorted((m for m in near if m.distance <= CLOSE), key=lambda m: _first(m.model))
    chosen = {m.model.id: m for m in [*near[:FULL_NEAREST], *early[:FULL_EARLIEST]]}
    return list(chosen.values())


def _ordered(matches: Iterable[Match]) -> list[Match]:
    """Copies of somebody's earlier work first, by claim; then by what is nearest among descents, siblings, the rest."""

    def key(match: Match) -> tuple[float, ...]:
        if match.comparison.copy:
            return (0 if match.counts else 0.5, *_first(match.model), match.distance)
        if match.comparison.relation is Relation.MERGED:
            weights = {p.digest: p.weight for p in match.comparison.parents}
            if weights.get(match.model.content_root, 0.0) >= PARENT_LEAST:
                return (_TIER[Relation.MERGED], -1.0, *_first(match.model))
        return (_TIER[match.comparison.relation], match.distance, match.model.id)

    return sorted(matches, key=key)


def _between(one: Fingerprint, other: Fingerprint) -> float:
    a, b = one.basis_vector, other.basis_vector
    return float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64))) if a.shape == b.shape else inf


def _first(model: KnownModel) -> tuple[float, ...]:
    return precedence(model.earliest) if model.earliest is not None else (inf,) * 4


def _earlier(submission: Submission, claim: Claim | None) -> bool:
    """Whether a claim can be held against the candidate's: somebody else's, and shown to be earlier."""
    if claim is None:
        return True
    if claim.hotkey is not None and submission.claim.hotkey == claim.hotkey:
        return False
    if submission.claim.role is Role.BASE or claim.block is None:
        return True
    theirs = submission.claim
    if theirs.block is None or theirs.block > claim.block:
        return False
    if theirs.block < claim.block:
        return True
    return theirs.extrinsic is not None and claim.extrinsic is not None and theirs.extrinsic < claim.extrinsic
