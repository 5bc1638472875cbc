"""Put one family through the comparison: honest pairs that must not be accused, attacks that must be caught.

Every outcome is one flat record, so that tables, calibration and the JSON are all made from the same list.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.gauntlet import attacks, rivals
from benchmarks.gauntlet.families import Family
from benchmarks.gauntlet.honest import ancestors, pairs
from benchmarks.gauntlet.kit import Kit
from benchmarks.gauntlet.scenes import BASE, Stage, stages
from fingerprint.checkpoint import open_checkpoint
from fingerprint.compare import Comparison, Depth, Source, compare
from fingerprint.compare.rank import nearest
from fingerprint.compare.relation import Relation
from fingerprint.scan import scan

CLOSE, CLOSE_MOST = 1.25, 4
"""Distances, as a multiple of the smallest, between which comparison decides, and how many are compared."""

KNOWN_MOST = 8
"""Known models beside the nearest that are tried as parents of a merge."""


@dataclass(frozen=True)
class Outcome:
    """One comparison and the truth about it.

    Attributes:
        family: Family name.
        kind: ``honest`` or ``attack``.
        group: Table row group: kind of honest pair, or attack group.
        name: Attack name, or candidate's name.
        victim: Name of the reference.
        depth: ``sketch`` or ``full``.
        truth: Relation that holds.
        accepted: Relations that are right.
        copy: Whether it is a copy.
        relation: Relation that was said.
        parents_right: Whether the parents named are the true ones; None where there are none.
        fap: False-accusation probability given.
        seconds: Time of the comparison.
        transforms: What was named.
        numbers: Statistics of the comparison.
        rivals: Verdict of each plain rival: does it flag a copy?
    """

    family: str
    kind: str
    group: str
    name: str
    victim: str
    depth: str
    truth: str
    accepted: tuple[str, ...]
    copy: bool
    relation: str
    parents_right: bool | None
    fap: float
    seconds: float
    transforms: tuple[str, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)
    rivals: Mapping[str, bool] = field(default_factory=dict)

    @property
    def flagged(self) -> bool:
        """Whether it was called a copy."""
        return Relation(self.relation).copy

    def as_json(self) -> dict[str, object]:
        """Flat record."""
        return asdict(self)


class Known:
    """The honest models of a family, scanned once."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.sources: dict[str, Source] = {}
        for name, entry in family.models.items():
            checkpoint = open_checkpoint(entry.path)
            self.sources[name] = Source(scan(checkpoint), checkpoint)
        self.by_root = {s.fingerprint.content_root: n for n, s in self.sources.items()}

    def nearest(self, candidate: Source) -> tuple[str, ...]:
        """The nearest known model, and those that are nearly as near, nearest first."""
        order = nearest(candidate.fingerprint, [s.fingerprint for s in self.sources.values()])
        names = list(self.sources)
        return tuple(names[i] for i, distance in order[:CLOSE_MOST] if distance <= CLOSE * order[0][1])

    def parent(self, candidate: Source, close: tuple[str, ...], depth: Depth) -> str:
        """The one of ``close`` that the candidate is a copy of, as ``identify`` chooses; else the nearest."""
        if len(close) > 1:
            for name in close:
                base = self.sources[BASE] if name != BASE else None
                if compare(candidate, self.sources[name], base=base, depth=depth).relation.copy:
                    return name
        return close[0]

    def others(self, reference: str) -> list[Source]:
        """Known models that may be further parents of a merge with ``reference``: those of its own root."""
        models = self.family.models
        root = models[reference].base
        return [self.sources[n] for n, e in models.items() if n != reference and e.base == root][: KNOWN_MOST + 16]


HARD_KINDS = frozenset({"child: reward", "child: preference", "child: light adapter", "siblings: hard"})
"""Kinds of honest pairs that lie nearest to copies."""


def honest_outcomes(known: Known, depths: tuple[Depth, ...], kit: Kit | None = None) -> Iterator[Outcome]:
    """Honest pairs, the base given where the truth names one: each once, and the hard kinds in both directions."""
    models = known.family.models
    order = {name: i for i, name in enumerate(models)}
    for candidate, reference, truth in pairs(known.family):
        kind = pair_kind(candidate.name, reference.name, models)
        if order[candidate.name] < order[reference.name] and kind not in HARD_KINDS:
            continue
        ours, theirs = known.sources[candidate.name], known.sources[reference.name]
        base = None if truth.base is None else known.sources[truth.base]
        plain = rivals.verdicts(ours, theirs)
        plain |= kit.verdicts(candidate.path, reference.path) if kit else {}
        for depth in depths:
            said, seconds = _timed(ours, theirs, base=base, depth=depth)
            yield Outcome(
                known.family.name, "honest", kind, candidate.name,
                reference.name, depth.value, truth.relation.value, tuple(r.value for r in truth.accepted), False,
                said.relation.value, None, said.false_accusation_probability, seconds, said.transforms,
                dict(said.statistics), plain,
            )  # fmt: skip


def pair_kind(candidate: str, reference: str, models: Mapping[str, object]) -> str:
    """Table row of an honest pair: kinds of both, and how they are related."""
    a, b = models[candidate], models[reference]
    line_a, line_b = ancestors(a, models), ancestors(b, models)  # type: ignore[arg-type]
    if candidate in line_b or reference in line_a:
        young = a if reference in line_a else b
        return f"child: {young.kind}"  # type: ignore[attr-defined]
    if set(line_a) & set(line_b):
        hard = {"rl", "rl-seed2", "rl-master", "rl-from-ft-a", "dpo", "ft-a-order2", "ft-a-data2", "ft-a"}
        return "siblings: hard" if candidate in hard and reference in hard else "siblings"
    return "independent: same data" if "s2" not in candidate + reference else "independent"


def attack_outcomes(
    known: Known, depths: tuple[Depth, ...], *, victims: tuple[str, ...], only: frozenset[str] = frozenset(),
    kit: Kit | None = None,
) -> Iterator[Outcome]:  # fmt: skip
    """Every attack that applies, on every victim."""
    for stage in stages(known.family, victims):
        for attack in attacks.registry().values():
            if (only and attack.name not in only) or not attack.applies(stage.scene):
                continue
            folder = Path(tempfile.mkdtemp(prefix="gauntlet-"))
            try:
                made = attacks.perform(attack, stage.scene)
                attacks.write(made.model, folder)
                victim = known.family.models[stage.names["victim"]].path
                plain = kit.verdicts(folder, victim) if kit else {}
                with open_checkpoint(folder) as checkpoint:
                    yield from _attacked(
                        known, stage, attack, made, Source(scan(checkpoint), checkpoint), depths, plain
                    )
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _attacked(
    known: Known, stage: Stage, attack: attacks.Attack, made: attacks.Attacked, candidate: Source,
    depths: tuple[Depth, ...], plain: Mapping[str, bool],
) -> Iterator[Outcome]:  # fmt: skip
    victim = stage.names["victim"]
    reference = known.sources[victim]
    accepted = tuple(sorted({r.value for r in (attack.relation, *attack.accept)}))
    plain = rivals.verdicts(candidate, reference) | dict(plain)
    close = known.nearest(candidate)
    for depth in depths:
        best = known.parent(candidate, close, depth)
        said, seconds = _timed(
            candidate, reference, base=known.sources[BASE] if victim != BASE else None,
            known=known.others(victim) if attack.relation is Relation.MERGED else (), depth=depth,
        )  # fmt: skip
        yield Outcome(
            known.family.name, "attack", attack.group, attack.name, victim, depth.value, attack.relation.value,
            accepted, attack.relation.copy, said.relation.value, _parents(known, stage, attack, made, said, best),
            said.false_accusation_probability, seconds, said.transforms, dict(said.statistics), plain,
        )  # fmt: skip


def _parents(
    known: Known, stage: Stage, attack: attacks.Attack, made: attacks.Attacked, said: Comparison, best: str
) -> bool | None:
    """Whether the right parents were found: the nearest of all known models, or all parts of a mixture."""
    if attack.group == "control":
        return None
    if attack.relation is Relation.MERGED:
        named = {known.by_root.get(p.digest, "?"): p.weight for p in said.parents}
        wanted = {stage.names[k]: w for k, w in made.weights.items() if k in stage.names and abs(w) > 0.02}
        return set(named) == set(wanted)
    if attack.relation is Relation.PARTIAL:
        return best in (stage.names["victim"], stage.names.get("stranger"))
    return best == stage.names["victim"]


def _timed(candidate: Source, reference: Source, **options: object) -> tuple[Comparison, float]:
    started = time.perf_counter()
    said = compare(candidate, reference, **options)  # type: ignore[arg-type]
    return said, time.perf_counter() - started
