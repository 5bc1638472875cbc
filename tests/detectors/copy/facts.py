"""Facts about made-up models: digests and hotkeys that stand for nobody."""

from __future__ import annotations

from hashlib import sha256

from detectors.copy import Candidate, Claim, Declared, Facts, Known, Match, Parent, Place
from fingerprint.compare.relation import Relation


def root(name: str) -> str:
    return "sha256:" + sha256(name.encode()).hexdigest()


def claim(hotkey: str | None, block: int | None = None, extrinsic: int | None = 0, **more) -> Claim:
    place = None if block is None else Place(block, extrinsic)
    return Claim(hotkey, sha256(f"{hotkey}".encode()).hexdigest()[:40], place, **more)


def known(name: str, *claims: Claim, base: bool = False) -> Known:
    return Known(root(name), base, claims)


def match(model: Known, relation: Relation, *, p: float | None = None, parents=None, **more) -> Match:
    if p is None:
        p = {Relation.IDENTICAL: 0.0, Relation.EQUIVALENT: 1e-12, Relation.PERTURBED: 1e-9}.get(relation, 1.0)
    return Match(
        model=model,
        relation=relation,
        confidence=more.get("confidence", 0.999),
        false_accusation_probability=p,
        coverage=more.get("coverage", 1.0),
        transforms=more.get("transforms", ()),
        parents=(Parent(model, 1.0),) if parents is None else tuple(parents),
        algorithm="compare/test",
        evidence=root(f"evidence {model.content_root} {relation}"),
    )


def facts(mine: Claim, *matches: Match, declared: tuple[Declared, ...] = (), comparisons: int = 0) -> Facts:
    count = comparisons or max(1, len(matches))
    return Facts(Candidate(mine, root("candidate")), matches, declared=declared, comparisons=count)
