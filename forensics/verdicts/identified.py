"""From what ``identify`` verified to findings: who claims the matches since when, and evidence that can be replayed.

The registry knows claims by hotkey and block. The chain knows more: anchored attestations that bind content earlier,
owners of hotkeys, and hotkeys that were swapped or rotated. All of it goes into the facts before anybody is called a
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from detectors import copy
from detectors.copy import Candidate, Claim, Declared, Facts, Known, Match, Parent, Place
from detectors.evidence import Finding
from fingerprint.compare.relation import Relation

from .. import evidence
from ..known.claim import KnownModel, Role, Submission
from ..known.identify import Identification
from ..known.identify import Match as Verified
from ..store.blobs import Blobs

if TYPE_CHECKING:
    from ..known.registry import Registry

_SILENT: Final = frozenset({Relation.INDEPENDENT, Relation.SIBLING})
"""Relations about which there is nothing to find, so that no bundle is written for them."""


class Owners(Protocol):
    """Who stands behind a hotkey."""

    def coldkey(self, hotkey: str) -> str | None:
        """Its owner, where the chain shows one."""
        ...

    def operator(self, hotkey: str) -> str | None:
        """The hotkey that its owner started with, through swaps and rotations."""
        ...


class Strangers:
    """Nothing is known of anybody: each hotkey is a party of its own."""

    def coldkey(self, hotkey: str) -> str | None:
        """Not known."""
        return None

    def operator(self, hotkey: str) -> str | None:
        """Not known."""
        return None


Attested = Callable[[str, str], Place | None]
"""Where an anchored attestation binds this content root for this hotkey."""
Parents = Callable[[str], Sequence[Declared]]
"""Parents that were declared for a content root."""


def nowhere(_root: str, _hotkey: str) -> Place | None:
    """Nothing was attested."""
    return None


def undeclared(_root: str) -> Sequence[Declared]:
    """Nothing was declared."""
    return ()


@dataclass(frozen=True)
class Submitted:
    """The submission that was identified.

    Args:
        hotkey: Who committed it.
        revision: Commit, 40 hex digits.
        block: Block of the commitment.
        extrinsic: Index in that block.
        content_root: Its content.
    """

    hotkey: str
    revision: str
    block: int
    extrinsic: int | None
    content_root: str


class Examiner:
    """Turns identifications into copy findings.

    Args:
        registry: Known models, for parents of a merge that were not compared themselves.
        blobs: Where evidence bundles go.
        owners: Who stands behind hotkeys.
        attested: Anchored attestations.
        declared: Declared lineage.
    """

    def __init__(
        self,
        registry: Registry,
        blobs: Blobs,
        *,
        owners: Owners | None = None,
        attested: Attested = nowhere,
        declared: Parents = undeclared,
    ) -> None:
        self._registry, self._blobs = registry, blobs
        self._owners: Owners = owners if owners is not None else Strangers()
        self._attested, self._declared = attested, declared

    def findings(self, submitted: Submitted, found: Identification) -> tuple[Finding, ...]:
        """What the copy detector says of a submission.

        Raises:
            StoreUnavailable: Evidence cannot be stored; nothing was said.
        """
        return copy.findings(self.facts(submitted, found))

    def facts(self, submitted: Submitted, found: Identification) -> Facts:
        """The facts, with the evidence of every match that can matter stored under its digest."""
        others = [match for match in found.matches if not _itself(match.model, submitted)]
        telling = [match for match in others if match.comparison.relation not in _SILENT]
        models = {match.model.content_root: match.model for match in found.matches}
        missing = {p.digest for m in telling for p in m.comparison.parents} - set(models)
        models |= {model.content_root: model for model in self._registry.by_root(sorted(missing))}
        known = {root: self._known(model) for root, model in models.items()}
        return Facts(
            candidate=Candidate(self._own(submitted), submitted.content_root),
            matches=tuple(self._match(match, known) for match in telling),
            declared=tuple(self._declared(submitted.content_root)),
            comparisons=max(1, len(others)),
        )

    def _match(self, match: Verified, known: dict[str, Known]) -> Match:
        comparison = match.comparison
        parents = ((known.get(p.digest) or Known(p.digest, base=False), p.weight) for p in comparison.parents)
        return Match(
            model=known[match.model.content_root],
            relation=comparison.relation,
            confidence=comparison.confidence,
            false_accusation_probability=comparison.false_accusation_probability,
            coverage=comparison.coverage,
            transforms=comparison.transforms,
            parents=tuple(Parent(model, weight) for model, weight in parents),
            algorithm=comparison.algorithm,
            evidence=self._blobs.put(evidence.make(comparison, match.inputs)),
        )

    def _known(self, model: KnownModel) -> Known:
        return Known(model.content_root, model.is_base, tuple(self._claims(model)))

    def _claims(self, model: KnownModel) -> Iterable[Claim]:
        for submission in model.submissions:
            claim = submission.claim
            if claim.role is Role.BASE:
                yield Claim(None, claim.revision, _place(submission), withdrawn=not submission.active)
                continue
            hotkey = claim.hotkey or ""
            yield Claim(
                hotkey or None,
                claim.revision,
                _earlier(_place(submission), self._attested(model.content_root, hotkey)),
                coldkey=self._owners.coldkey(hotkey),
                operator=self._owners.operator(hotkey),
                withdrawn=not submission.active,
            )

    def _own(self, submitted: Submitted) -> Claim:
        committed = Place(submitted.block, submitted.extrinsic)
        return Claim(
            submitted.hotkey,
            submitted.revision or None,
            _earlier(committed, self._attested(submitted.content_root, submitted.hotkey)),
            coldkey=self._owners.coldkey(submitted.hotkey),
            operator=self._owners.operator(submitted.hotkey),
        )


def _itself(model: KnownModel, submitted: Submitted) -> bool:
    """Whether this is the submission's own content, which nobody else ever claimed."""
    claimed = {s.claim.hotkey for s in model.submissions}
    return model.content_root == submitted.content_root and claimed <= {submitted.hotkey}


def _place(submission: Submission) -> Place | None:
    claim = submission.claim
    return None if claim.block is None else Place(claim.block, claim.extrinsic)


def _earlier(one: Place | None, other: Place | None) -> Place | None:
    return min((place for place in (one, other) if place is not None), key=lambda place: place.key, default=None)
