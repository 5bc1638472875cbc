"""A validator's verdicts in the demo's terms: who is who, and whether what was said is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attest.predicates.verdict import Status, UidVerdict
from fingerprint.compare.relation import Relation
from forensics.demo.stage import BASE
from forensics.demo.subnet import Miner

NOTHING = frozenset({Relation.SIBLING, Relation.INDEPENDENT})
"""Relations of which a verdict says nothing: there is nothing to hold against anybody, and no parent to name."""
COSTLY = frozenset({Status.PENALISED, Status.REJECTED})


@dataclass(frozen=True)
class Answer:
    """What the signed verdict on a miner says.

    Attributes:
        status: Status.
        multiplier: What the miner's score is multiplied with.
        code: Code of the gravest reason; empty when there is none.
        relation: What their model is to others; empty when nothing is said.
        of: Names of those others with their weights, heaviest first.
        confidence: In the gravest reason.
        false_accusation: Probability that an honest model gives such evidence.
        evidence: Digest of the evidence bundle, where there is one.
    """

    status: Status
    multiplier: float
    code: str
    relation: str
    of: tuple[tuple[str, float], ...]
    confidence: float
    false_accusation: float
    evidence: str | None

    @property
    def copy(self) -> bool:
        """Whether it says that this is a copy."""
        return self.code.startswith("copy.")

    @property
    def line(self) -> str:
        """In a few words."""
        of = f" of {' + '.join(name for name, _ in self.of)}" if self.of else ""
        return f"{self.status}, {self.relation or self.code or 'nothing to say'}{of}"


@dataclass(frozen=True)
class Judged:
    """One miner with the verdict a validator read, and whether it is true.

    Attributes:
        miner: The miner, with the truth.
        uid: Their uid.
        block: Block of the commitment; None for who made none.
        answer: What the verdict says.
        seconds: From the commitment's being shown to the verdict's being read.
    """

    miner: Miner
    uid: int
    block: int | None
    answer: Answer
    seconds: float | None

    @property
    def accused(self) -> bool:
        """Something was held against somebody who copied nothing: the worst mistake."""
        return not self.miner.copy and (self.answer.multiplier < 1 or self.answer.status in (*COSTLY, Status.HELD))

    @property
    def caught(self) -> bool:
        """A copy that is worth nothing any more."""
        return self.miner.copy and self.answer.status in COSTLY and self.answer.multiplier == 0

    @property
    def missed(self) -> bool:
        """A copy that is paid."""
        return self.miner.copy and not self.caught

    @property
    def right(self) -> bool:
        """Status, multiplier, relation and everybody named are true."""
        if self.miner.unknown is not None:
            return (self.answer.status, self.answer.code) == (Status.UNKNOWN, self.miner.unknown) and not self.accused
        if self.accused or self.missed or self.answer.status is Status.UNKNOWN:
            return False
        return self.true_relation and self.true_parents

    @property
    def true_relation(self) -> bool:
        """Whether the relation is one of those that are true."""
        if not self.answer.relation:
            return bool(NOTHING & set(self.miner.relations))
        return self.answer.relation in {relation.value for relation in self.miner.relations}

    @property
    def true_parents(self) -> bool:
        """Whether everybody named is, and somebody is where somebody must be."""
        named = {name for name, _ in self.answer.of}
        return named <= set(self.miner.of) and (bool(named) or not self.answer.relation)


def answers(verdicts: Iterable[UidVerdict], miners: Iterable[Miner], roots: Mapping[str, str]) -> dict[str, Answer]:
    """What is said about each hotkey.

    Args:
        verdicts: Of a snapshot.
        miners: Everybody, those who commit first before the others: equal content is named after its first.
        roots: Names of further models by content root.
    """
    verdicts = list(verdicts)
    name_of = {miner.hotkey: miner.name for miner in miners}
    names = dict(roots)
    for verdict in sorted(verdicts, key=lambda v: list(name_of).index(v.hotkey)):
        if verdict.content_root is not None:
            names.setdefault(verdict.content_root, name_of[verdict.hotkey])
    return {verdict.hotkey: _answer(verdict, names | name_of) for verdict in verdicts}


def _answer(verdict: UidVerdict, names: Mapping[str, str]) -> Answer:
    reason = verdict.reasons[0] if verdict.reasons else None
    relation, of = "", tuple((names.get(p.digest, "?"), float(p.weight)) for p in verdict.parents)
    if reason is not None and reason.code.startswith("copy."):
        relation = reason.code.removeprefix("copy.")
        of = ((names.get(reason.of.hotkey, "?"), 1.0),) if reason.of is not None else of or ((BASE, 1.0),)
    elif verdict.parents:
        relation = str(verdict.parents[0].relation)
    return Answer(
        status=verdict.status,
        multiplier=float(verdict.multiplier),
        code="" if reason is None else reason.code,
        relation=relation,
        of=of,
        confidence=1.0 if reason is None else float(reason.confidence),
        false_accusation=1.0 if reason is None else float(reason.false_accusation_probability),
        evidence=None if reason is None else reason.evidence,
    )
