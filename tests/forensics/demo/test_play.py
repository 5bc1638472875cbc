"""The demo marks its own answers; marks that flatter would be worse than none."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fingerprint.compare.relation import Relation
from forensics.demo import table
from forensics.demo.play import Judged, hotkey
from forensics.demo.registry import Answer
from forensics.demo.stage import COURSES
from forensics.demo.subnet import MINERS, Miner
from forensics.known import address


def judged(truth: Relation, of: tuple[str, ...], said: str, named: tuple[str, ...], **fields: object) -> Judged:
    miner = Miner("m", "did something", (truth,), of, lambda stage, folder: True)
    answer = Answer(
        relation=said,
        copy=Relation(said).copy,
        of=tuple((label, 1.0) for label in named),
        since=7 if named else None,
        transforms=("noise:0.01",),
        confidence=0.99,
        false_accusation=1e-7,
        why="because",
        seconds=1.0,
    )
    return Judged(miner, 9, answer)


@pytest.mark.parametrize(
    ("truth", "of", "said", "named", "mark"),
    [
        (Relation.PERTURBED, ("ada",), "perturbed", ("ada",), "true"),
        (Relation.PERTURBED, ("ada",), "perturbed", ("bob",), "not bob's"),
        (Relation.PERTURBED, ("ada",), "equivalent", ("ada",), "not equivalent"),
        (Relation.PERTURBED, ("ada",), "derived", ("ada",), "MISSED"),
        (Relation.DERIVED, ("ada",), "perturbed", ("ada",), "ACCUSED"),
        (Relation.INDEPENDENT, (), "independent", (), "true"),
        (Relation.INDEPENDENT, (), "derived", ("ada",), "not derived"),
        (Relation.DERIVED, ("ada",), "derived", (), "whose?"),
    ],
)
def test_marks_say_what_went_wrong(truth, of, said, named, mark):
    one = judged(truth, of, said, named)
    assert str(table._mark(one)) == mark
    assert one.right == (mark == "true")


def test_the_sum_counts_copies_and_accusations_apart():
    rows = [
        judged(Relation.PERTURBED, ("ada",), "perturbed", ("ada",)),
        judged(Relation.PERTURBED, ("ada",), "derived", ("ada",)),
        judged(Relation.DERIVED, ("ada",), "perturbed", ("ada",)),
    ]
    said = str(table.summary(rows, 12.3))
    assert said.startswith("1 of 2 copies caught, 1 of 1 honest miners accused")
    assert "1 of 3" in said


def test_every_class_of_copy_and_every_honest_kind_is_in_the_cast():
    first = [miner.relations[0] for miner in MINERS]
    assert {Relation.IDENTICAL, Relation.EQUIVALENT, Relation.PERTURBED} <= set(first)
    assert {Relation.DERIVED, Relation.SIBLING, Relation.MERGED, Relation.INDEPENDENT} <= set(first)
    assert len({miner.name for miner in MINERS}) == len(MINERS) >= 12
    names = [*COURSES, *(miner.name for miner in MINERS)]
    for position, miner in enumerate(MINERS):
        assert all(parent in names[: len(COURSES) + position] for parent in miner.of)


def test_hotkeys_are_well_formed_and_distinct():
    addresses = {hotkey(miner.name) for miner in MINERS}
    assert len(addresses) == len(MINERS)
    assert all(address.normalise(text) == (text, True) for text in addresses)


def test_the_picture_needs_nothing_from_elsewhere():
    drawn = table.draw([judged(Relation.PERTURBED, ("ada",), "perturbed", ("ada",))], seconds=1, width=100)
    assert drawn.startswith("<svg")
    assert "url(http" not in drawn
    assert "@font-face" not in drawn


def test_the_table_names_whose_work_it_is_and_since_when():
    out = io.StringIO()
    row = judged(Relation.PERTURBED, ("ada",), "perturbed", ("ada",))
    table.show([row], seconds=2.0, console=Console(file=out, width=160))
    assert "ada, 7" in out.getvalue()
    assert "noise:0.01" in out.getvalue()
    assert "a copy" in out.getvalue()
