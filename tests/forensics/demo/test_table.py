"""What is printed says what was read, in sums that hide nothing."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from fingerprint.compare.relation import Relation
from forensics.demo import table
from forensics.demo.next_steps import Step
from tests.forensics.demo.test_verdict import ABSENT, ADA, BOB, CASES, COPY, WORK, judged, miner

CAUGHT = judged(COPY, "penalised", "0.0", code="copy.perturbed", of=ADA)
HELD = judged(COPY, "held", code="copy.perturbed", of=ADA)
ACCUSED = judged(WORK, "penalised", "0.0", code="copy.perturbed", of=ADA)


@pytest.mark.parametrize(
    ("case", "mark"),
    [
        ("a copy that costs everything", "true"),
        ("a copy of somebody else", "not bob's"),
        ("another kind of copy", "not identical"),
        ("a copy that is only held", "held"),
        ("a copy that passes as work", "MISSED"),
        ("work", "true"),
        ("work with no parent named", "whose?"),
        ("work that is not judged", "not judged"),
        ("work called a copy", "ACCUSED"),
    ],
)
def test_each_row_is_marked(case, mark):
    assert str(table._mark(CASES[case][0])) == mark


def test_the_sum_counts_copies_and_accusations_apart():
    rows = [CAUGHT, HELD, ACCUSED, replace(CAUGHT, seconds=4.0), replace(CAUGHT, seconds=None)]
    said = str(table.summary(rows, 12.3))
    assert said.startswith("3 of 4 copies caught, 1 of 1 honest miners accused; verdicts true for 3 of 5 uids.")
    assert "median 1.0 s, longest 4.0 s. 12 s in all." in said


def printed(*rows, steps=(), width: int = 160) -> str:
    out = io.StringIO()
    table.show(list(rows), list(steps), seconds=2.0, console=Console(file=out, width=width))
    return out.getvalue()


def test_a_row_names_status_reason_whose_work_and_evidence():
    soup = judged(
        miner(Relation.MERGED, of=("ada", "bob")),
        "watch",
        code="lineage.merged",
        parents=[("ada", "0.5", "merged"), ("bob", "0.5", "merged")],
    )
    text = printed(CAUGHT, soup, judged(ABSENT, "unknown", code="not_found"))
    for said in ("penalised", "copy.perturbed", "e" * 10, COPY.hotkey[:7], "0.50 ada + 0.50 bob", "not_found"):
        assert said in text
    assert BOB.name not in printed(CAUGHT)


def test_a_narrow_terminal_keeps_status_reason_and_mark_whole():
    text = printed(CAUGHT, ACCUSED, width=80)
    for said in ("penalised", "copy.perturbed", "true", "ACCUSED"):
        assert said in text
    assert "e" * 10 not in text


def test_commands_are_not_broken_across_lines():
    long = "forensics verify " + "x" * 300
    assert long in printed(CAUGHT, steps=[Step("Verify it", long, ("verified",))])


def test_the_picture_needs_nothing_from_elsewhere():
    drawn = table.draw([CAUGHT], seconds=1, width=120)
    assert drawn.startswith("<svg")
    assert "url(http" not in drawn
    assert "@font-face" not in drawn


def test_the_document_is_json_with_the_truth_beside_each_verdict():
    made = table.document([CAUGHT, ACCUSED], [Step("Verify", "forensics verify x")], seconds=1.0, service={"url": "u"})
    read = json.loads(json.dumps(made, allow_nan=False))
    assert (read["caught"], read["copies"], read["accused"], read["honest"]) == (1, 1, 1, 1)
    assert read["uids"][0]["of"] == [{"label": "ada", "weight": 1.0}]
    assert read["uids"][0]["expected"] == ["perturbed"]
    assert [row["accused"] for row in read["uids"]] == [False, True]
