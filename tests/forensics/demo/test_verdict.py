"""The demo marks its own verdicts; marks that flatter would be worse than none."""

from __future__ import annotations

import pytest

from attest.predicates.verdict import Of, ParentModel, Reason, Status, UidVerdict
from fingerprint.compare.relation import Relation
from forensics.demo.subnet import NO_COMMITMENT, NOT_FOUND, Miner
from forensics.demo.verdict import Judged, answers

ROOT = {name: "sha256:" + digit * 64 for name, digit in (("base", "0"), ("ada", "1"), ("bob", "2"), ("m", "3"))}


def miner(*relations: Relation, of: tuple[str, ...] = (), unknown: str | None = None, name: str = "m") -> Miner:
    return Miner(name, "did something", relations, of, None, unknown)


ADA, BOB = (miner(Relation.DERIVED, of=("base",), name=name) for name in ("ada", "bob"))


def verdict(who: Miner, status: str, multiplier: str = "1.0", *, code: str = "", of: Miner | None = None, parents=()):
    reasons = ()
    if code:
        accused = None if of is None else Of(hotkey=of.hotkey, revision=of.revision)
        reasons = (Reason(code, "copy@1", accused, "0.99", "1e-9", "sha256:" + "e" * 64),)
    return UidVerdict(
        uid=0,
        hotkey=who.hotkey,
        revision=who.revision,
        content_root=ROOT[who.name],
        status=Status(status),
        multiplier=multiplier,
        permanent=False,
        reasons=reasons,
        parents=tuple(ParentModel(ROOT[name], weight, relation, False) for name, weight, relation in parents),
        cluster=None,
        case=None,
    )


def judged(who: Miner, *args, **kwargs) -> Judged:
    said = [verdict(ADA, "clear"), verdict(BOB, "clear"), verdict(who, *args, **kwargs)]
    return Judged(who, 2, 7, answers(said, [ADA, BOB, who], {ROOT["base"]: "base"})[who.hotkey], 1.0)


COPY = miner(Relation.PERTURBED, of=("ada",))
WORK = miner(Relation.DERIVED, of=("ada",))
OWN = miner(Relation.INDEPENDENT)
ABSENT = miner(unknown=NOT_FOUND)
CASES = {
    "a copy that costs everything": (judged(COPY, "penalised", "0.0", code="copy.perturbed", of=ADA), "right caught"),
    "a copy of somebody else": (judged(COPY, "penalised", "0.0", code="copy.perturbed", of=BOB), "caught"),
    "another kind of copy": (judged(COPY, "penalised", "0.0", code="copy.identical", of=ADA), "caught"),
    "a copy that is only held": (judged(COPY, "held", code="copy.perturbed", of=ADA), "missed"),
    "a copy that costs half": (judged(COPY, "penalised", "0.5", code="copy.perturbed", of=ADA), "missed"),
    "a copy that passes as work": (judged(COPY, "clear", parents=[("ada", "1.0", "derived")]), "missed"),
    "a copy that is not judged": (judged(COPY, "unknown", code="pending"), "missed"),
    "work": (judged(WORK, "clear", parents=[("ada", "1.0", "derived")]), "right"),
    "work of the wrong parent": (judged(WORK, "clear", parents=[("bob", "1.0", "derived")]), ""),
    "work with no parent named": (judged(WORK, "clear"), ""),
    "work that is not judged": (judged(WORK, "unknown", code="pending"), ""),
    "work called a copy": (judged(WORK, "penalised", "0.0", code="copy.perturbed", of=ADA), "accused"),
    "work that is held": (judged(WORK, "held", code="priority.tie", of=ADA), "accused"),
    "nobody's": (judged(OWN, "clear"), "right"),
    "nobody's with a parent": (judged(OWN, "clear", parents=[("ada", "1.0", "derived")]), ""),
    "unknown, as it should": (judged(ABSENT, "unknown", code=NOT_FOUND), "right"),
    "unknown for another reason": (judged(ABSENT, "unknown", code=NO_COMMITMENT), ""),
    "unknown, called a cheat": (judged(ABSENT, "rejected", "0.0", code="commit.invalid"), "accused"),
}


@pytest.mark.parametrize("case", CASES)
def test_marks_say_what_went_wrong(case):
    one, marks = CASES[case]
    assert {mark for mark in ("right", "caught", "missed", "accused") if getattr(one, mark)} == set(marks.split())


def test_equal_content_is_named_after_who_was_first():
    twin = miner(Relation.IDENTICAL, of=("ada",), name="ada")
    late = Miner("late", "copied", (Relation.DERIVED,), ("ada",), None)
    said = [verdict(ADA, "clear"), verdict(BOB, "clear")]
    child = UidVerdict(**{**vars(verdict(BOB, "clear", parents=[("ada", "1.0", "derived")])), "hotkey": late.hotkey})
    assert twin.hotkey == ADA.hotkey
    found = answers([child, *said], [ADA, BOB, late], {ROOT["base"]: "base"})
    assert found[late.hotkey].of == (("ada", 1.0),)


def test_a_copy_of_the_public_base_names_the_base():
    said = [verdict(COPY, "penalised", "0.0", code="copy.perturbed", parents=[("base", "1.0", "perturbed")])]
    assert answers(said, [COPY], {ROOT["base"]: "base"})[COPY.hotkey].of == (("base", 1.0),)
