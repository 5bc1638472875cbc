"""From what ``identify`` verified to findings: who claims the matches, and since when.

The registry knows claims by hotkey and block. The chain knows more: anchored attestations that bind content earlier,
owners of hotkeys, and hotkeys that were swapped or rotated. All of it goes into the facts before anybody is called a
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from detectors import copy
from detectors.copy import Candidate, Claim, Declared, Facts, Known, Match, Parent, Place
from detectors.evidence import Finding
from fingerprint.compare.relation import Relation

from ..errors import StoreCorrupt
from ..known.claim import KnownModel, Role, Submission

if TYPE_CHECKING:
    from ..known.registry import Registry

_SILENT: Final = frozenset({Relation.INDEPENDENT, Relation.SIBLING})
"""Relations about which there is nothing to find."""


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
Bound = Callable[[str, Place], Place]
"""Where a hotkey's commitment, readable at a place, bound what it names."""
Parents = Callable[[str], Sequence[Declared]]
"""Parents that were declared for a content root."""


def nowhere(_root: str, _hotkey: str) -> Place | None:
    """Nothing was attested."""
    return None


def as_committed(_hotkey: str, committed: Place) -> Place:
    """Where it became readable."""
    return committed


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
        registry: Known models, and who claims them.
        owners: Who stands behind hotkeys.
        bound: Where commitments were bound.
        attested: Anchored attestations.
        declared: Declared lineage.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        owners: Owners | None = None,
        bound: Bound = as_committed,
        attested: Attested = nowhere,
        declared: Parents = undeclared,
    ) -> None:
        self._registry = registry
        self._owners: Owners = owners if owners is not None else Strangers()
        self._bound, self._attested, self._declared = bound, attested, declared

    def findings(self, submitted: Submitted, identified: Mapping[str, Any]) -> tuple[Finding, ...]:
        """What the copy detector says of a submission.

        Args:
            submitted: The submission.
            identified: The document of its identification: ``matches``, each with ``content_root``, ``comparison`` as
                ``compare --json`` prints it, and ``evidence``, the digest of the stored bundle; the one that says what
                the candidate is first.

        Raises:
            StoreCorrupt: The document is not that of an identification.
            StoreUnavailable: The registry cannot be read; nothing was said.
        """
        return copy.findings(self.facts(submitted, identified))

    def facts(self, submitted: Submitted, identified: Mapping[str, Any]) -> Facts:
        """The facts: every match that can matter, with everybody who claims the models in it."""
        try:
            found = [_Found.read(match) for match in identified["matches"]]
        except (KeyError, TypeError, ValueError) as error:
            raise StoreCorrupt("not an identification", where="identified", got=repr(error)[:120]) from None
        roots = {root for one in found for root in (one.content_root, *(digest for digest, _ in one.parents))}
        models = {model.content_root: model for model in self._registry.by_root(sorted(roots))}
        others = [one for one in found if not _itself(models.get(one.content_root), submitted)]
        known = {root: self._known(models[root]) if root in models else Known(root, base=False) for root in roots}
        return Facts(
            candidate=Candidate(self._own(submitted), submitted.content_root),
            matches=tuple(one.match(known) for one in others if one.relation not in _SILENT),
            declared=tuple(self._declared(submitted.content_root)),
            comparisons=max(1, len(others)),
        )

    def _known(self, model: KnownModel) -> Known:
        return Known(model.content_root, model.is_base, tuple(self._claims(model)))

    def _claims(self, model: KnownModel) -> Iterable[Claim]:
        for submission in model.submissions:
            claim = submission.claim
            if claim.role is Role.BASE:
                yield Claim(None, claim.revision, _place(submission), withdrawn=not submission.active)
                continue
            hotkey, committed = claim.hotkey or "", _place(submission)
            yield Claim(
                hotkey or None,
                claim.revision,
                self._effective(hotkey, committed, model.content_root),
                coldkey=self._owners.coldkey(hotkey) or None,
                operator=self._owners.operator(hotkey),
                withdrawn=not submission.active,
            )

    def _effective(self, hotkey: str, committed: Place | None, root: str) -> Place | None:
        """Where a hotkey bound this content: by commitment or by attestation, whichever came first."""
        bound = None if committed is None else self._bound(hotkey, committed)
        places = [place for place in (bound, self._attested(root, hotkey)) if place is not None]
        return min(places, key=lambda place: place.key, default=None)

    def _own(self, submitted: Submitted) -> Claim:
        return Claim(
            submitted.hotkey,
            submitted.revision or None,
            self._effective(submitted.hotkey, Place(submitted.block, submitted.extrinsic), submitted.content_root),
            coldkey=self._owners.coldkey(submitted.hotkey) or None,
            operator=self._owners.operator(submitted.hotkey),
        )


@dataclass(frozen=True)
class _Found:
    """One match of an identification, as it was written down."""

    content_root: str
    relation: Relation
    comparison: Mapping[str, Any]
    parents: tuple[tuple[str, float], ...]
    evidence: str

    @classmethod
    def read(cls, match: Mapping[str, Any]) -> _Found:
        comparison = match["comparison"]
        return cls(
            content_root=match["content_root"],
            relation=Relation(comparison["relation"]),
            comparison=comparison,
            parents=tuple((parent["digest"], float(parent["weight"])) for parent in comparison["parents"]),
            evidence=match["evidence"],
        )

    def match(self, known: Mapping[str, Known]) -> Match:
        return Match(
            model=known[self.content_root],
            relation=self.relation,
            confidence=float(self.comparison["confidence"]),
            false_accusation_probability=float(self.comparison["false_accusation_probability"]),
            coverage=float(self.comparison["coverage"]),
            transforms=tuple(self.comparison["transforms"]),
            parents=tuple(Parent(known[root], weight) for root, weight in self.parents),
            algorithm=str(self.comparison["algorithm"]),
            evidence=self.evidence,
        )


def _itself(model: KnownModel | None, submitted: Submitted) -> bool:
    """Whether this is the submission's own content, which nobody else ever claimed."""
    if model is None:
        return False
    claimed = {s.claim.hotkey for s in model.submissions}
    return model.content_root == submitted.content_root and claimed <= {submitted.hotkey}


def _place(submission: Submission) -> Place | None:
    claim = submission.claim
    return None if claim.block is None else Place(claim.block, claim.extrinsic)
