"""Findings out of facts.

- ``copy.identical``, ``copy.equivalent``, ``copy.perturbed``: the candidate is a copy of somebody's earlier work. One
  finding, on the earliest work of which that is sure; the other matches of its copy class say nothing more about it.
- ``priority.later``, ``priority.own``, ``priority.tie``, ``priority.unplaced``, ``priority.withdrawn``: it compares as
  a copy, and is not accused, because the reference came later, is of the same party, cannot be ordered, or is gone.
- ``lineage.derived``, ``lineage.merged``, ``lineage.partial``: whom it descends from; no wrongdoing.
- ``lineage.undeclared``, ``lineage.contradicted``: a rival's model is a parent and nobody said so, or a declared
  parent is none.
- ``lineage.inconclusive``: the nearest known model could not be decided about.

``copy``, ``priority`` and ``lineage`` rest on the same comparison, so they never corroborate each other: all three are
the artefact family of evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from fingerprint.compare.relation import Relation

from ..evidence import Exculpation, Finding, Kind, Party
from .facts import Candidate, Claim, Facts, Known, Match, Order, Parent
from .order import Ordered, Standing, ordered

DETECTOR: Final = "copy@1"
LEAST_WEIGHT: Final = 0.1
"""Smallest share of a parent that is spoken of: below it, weights of a mixture cannot be told from noise."""
SURE: Final = 1e-6
"""Corrected false-accusation probability from which an accusation stands alone (judgement rule 1)."""
LEAST_P: Final = 1e-300
MOST_TRANSFORMS: Final = 8
DESCENT: Final = frozenset({Relation.DERIVED, Relation.MERGED, Relation.PARTIAL})


def findings(facts: Facts, *, least_weight: float = LEAST_WEIGHT) -> tuple[Finding, ...]:
    """Everything the facts say about one submission.

    Args:
        facts: The submission and its verified matches.
        least_weight: Parents below this share are not spoken of.

    Returns:
        Findings, accusations first; the same facts give the same findings in the same order.
    """
    weighed = ordered(facts)
    accused = [w for w in weighed if w.standing is Standing.EARLIER]
    found: list[Finding] = []
    if accused:
        sure = [w for w in accused if facts.corrected(w.match) <= SURE]
        found.append(_copy(facts, min(sure or accused, key=_first)))
    else:
        found += [_spared(facts, w) for w in weighed]
        found += _lineage(facts, least_weight)
    found += _contradicted(facts)
    return tuple(found)


def submission(claim: Claim) -> Party:
    """A submission by what outlives uids: hotkey and revision."""
    return Party(Kind.SUBMISSION, f"{claim.hotkey}@{claim.revision}" if claim.revision else f"{claim.hotkey}")


def _first(weighed: Ordered) -> tuple[float, ...]:
    """Earliest reference first, a base before all; then the surest match."""
    claim = weighed.claim
    if weighed.match.model.base or claim is None or claim.place is None:
        return (-1.0, 0.0, weighed.match.false_accusation_probability)
    return (*claim.place.key, weighed.match.false_accusation_probability)


def _copy(facts: Facts, weighed: Ordered) -> Finding:
    match = weighed.match
    return _finding(
        facts,
        match,
        f"copy.{match.relation.value}",
        of=_party(match.model, weighed.claim),
        p=facts.corrected(match),
        places=weighed,
        exculpatory=tuple(_speaks_for(facts, weighed)),
    )


def _speaks_for(facts: Facts, weighed: Ordered) -> Iterator[Exculpation]:
    match = weighed.match
    if match.model.base:
        yield Exculpation("public_base", "the reference is public and nobody's: no rival lost anything by it")
    if facts.declares(match.model.content_root):
        yield Exculpation("declared_parent", "its owner had declared this model as the parent")
    if match.coverage < 1:
        yield Exculpation("not_all_explained", f"{match.coverage:.1%} of its parameters are explained by the reference")
    if match.model.base is False and weighed.claim is not None and _close(weighed):
        yield Exculpation("same_block", "both claims are of one block; only the index within it tells who was first")


def _close(weighed: Ordered) -> bool:
    theirs, own = weighed.claim.place if weighed.claim else None, weighed.own.place
    return theirs is not None and own is not None and theirs.block == own.block


_SPARED: Final = {
    Standing.LATER: ("priority.later", "reference_later", "the candidate's party was first; the other is the copy"),
    Standing.OWN: ("priority.own", "own_model", "the reference is the same party's own model"),
    Standing.TIE: ("priority.tie", "tie", "the chain gives both the same place: nobody was shown to be first"),
    Standing.UNPLACED: ("priority.unplaced", "no_order", "the chain shows no order between the two claims"),
    Standing.WITHDRAWN: ("priority.withdrawn", "reference_withdrawn", "no claim to the reference stands"),
}


def _spared(facts: Facts, weighed: Ordered) -> Finding:
    code, word, text = _SPARED[weighed.standing]
    match = weighed.match
    return _finding(
        facts,
        match,
        code,
        of=_party(match.model, weighed.claim),
        p=1.0,
        places=weighed,
        exculpatory=(Exculpation(word, text),),
    )


def _lineage(facts: Facts, least_weight: float) -> Iterator[Finding]:
    """What it was made of, by the best match that is not of the copy class."""
    match = next((m for m in facts.matches if not m.relation.copy and not _newer(m.model, facts.candidate)), None)
    if match is None:
        return
    if match.relation is Relation.INCONCLUSIVE:
        yield _finding(facts, match, "lineage.inconclusive", of=_party(match.model, None), p=1.0)
    if match.relation not in DESCENT:
        return
    for parent in match.parents:
        if abs(parent.weight) >= least_weight and not _newer(parent.model, facts.candidate):
            yield _parent(facts, match, parent)
            if _undeclared(facts, parent):
                yield _parent(facts, match, parent, code="lineage.undeclared")


def _parent(facts: Facts, match: Match, parent: Parent, *, code: str = "") -> Finding:
    declared = facts.declares(parent.model.content_root)
    exculpatory = []
    if parent.model.base:
        exculpatory.append(Exculpation("public_base", "the parent is public"))
    if declared:
        exculpatory.append(Exculpation("declared_parent", "its owner declared this parent"))
    if _of_party(parent.model, facts.candidate):
        exculpatory.append(Exculpation("own_model", "the parent is the same party's own model"))
    return _finding(
        facts,
        match,
        code or f"lineage.{match.relation.value}",
        of=Party(Kind.MODEL, parent.model.content_root),
        p=1.0,
        more={"weight": parent.weight, "declared": int(declared), "relation": match.relation.value},
        exculpatory=tuple(exculpatory),
    )


def _undeclared(facts: Facts, parent: Parent) -> bool:
    if parent.model.base or facts.declares(parent.model.content_root):
        return False
    return bool(parent.model.standing) and not _of_party(parent.model, facts.candidate)


def _contradicted(facts: Facts) -> Iterator[Finding]:
    """Declared parents that measuring ruled out, as the attestation service judged them."""
    for declared in sorted(facts.declared, key=lambda d: d.parent):
        if declared.judgement == "contradicted" and facts.matches:
            yield _finding(
                facts,
                facts.matches[0],
                "lineage.contradicted",
                of=Party(Kind.MODEL, declared.parent),
                p=1.0,
                exculpatory=(Exculpation("harmless", "a wrong declaration takes nothing from anybody"),),
            )


def _newer(model: Known, candidate: Candidate) -> bool:
    """Whether everybody's claim to it is later than the candidate's: then it is no parent, but may be a child."""
    if model.base or candidate.claim.place is None:
        return False
    places = [c.place for c in model.standing]
    return bool(places) and all(p is not None and p.order(candidate.claim.place) is Order.LATER for p in places)


def _of_party(model: Known, candidate: Candidate) -> bool:
    first = next(iter(model.standing), None)
    return first is not None and first.same_party(candidate.claim)


def _party(model: Known, claim: Claim | None) -> Party:
    if claim is None or claim.hotkey is None:
        return Party(Kind.MODEL, model.content_root)
    return submission(claim)


def _finding(
    facts: Facts,
    match: Match,
    code: str,
    *,
    of: Party,
    p: float,
    places: Ordered | None = None,
    more: dict[str, float | int | str] | None = None,
    exculpatory: tuple[Exculpation, ...] = (),
) -> Finding:
    p = max(p, LEAST_P)
    measured: dict[str, float | int | str] = {
        "confidence": match.confidence,
        "coverage": match.coverage,
        "comparisons": facts.comparisons,
        "reference": match.model.content_root,
        "relation": match.relation.value,
    }
    if match.transforms:
        measured["transforms"] = " ".join(match.transforms[:MOST_TRANSFORMS])
    if code.startswith("copy.") and match.relation is Relation.IDENTICAL:
        measured["proof"] = "equal_content"
    if places is not None:
        measured["place"] = str(places.own.place) if places.own.place else "none"
        measured["reference_place"] = str(places.claim.place) if places.claim and places.claim.place else "none"
    return Finding(
        detector=DETECTOR,
        code=code,
        subject=submission(facts.candidate.claim),
        object=of,
        log10_likelihood_ratio=_log10_ratio(match, p) if code.startswith("copy.") else 0.0,
        p_value=p,
        null=f"{match.algorithm},bonferroni={facts.comparisons}",
        evidence=match.evidence,
        measured=measured | (more or {}),
        exculpatory=exculpatory,
    )


def _log10_ratio(match: Match, p: float) -> float:
    """Tail over tail: how often a copy looks at least like this, over how often a model that is none does."""
    return math.log10(max(match.confidence, LEAST_P)) - math.log10(p)
