from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from fingerprint.compare.relation import Comparison, Depth, LayerEvidence, Parent, Relation
from forensics.known.claim import Claim, KnownModel, Role, Submission
from forensics.report import MEANING, Named, percent, print_lines, render, summary, who

ROOT = "sha256:" + "ab" * 32
HOTKEY = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def known(*claims: Claim) -> KnownModel:
    rows = tuple(Submission(i, c, AT) for i, c in enumerate(claims, 1))
    return KnownModel(1, ROOT, ROOT, ROOT, "a", "decoder", 1000, ROOT, 1, rows)


def comparison(**changes) -> Comparison:
    fields = {
        "relation": Relation.PERTURBED, "confidence": 0.9999999, "false_accusation_probability": 1e-9,
        "candidate": ROOT, "reference": ROOT, "depth": Depth.FULL, "algorithm": "compare@1/" + ROOT,
        "why": "The reference with noise that carries no trace of learning.", "parents": (Parent(ROOT, 1.0),),
        "transforms": ("resharded", "noise:0.01"), "coverage": 1.0,
        "per_layer": tuple(LayerEvidence(str(i), 0.99, 0.01, 1.0) for i in range(4)),
    }  # fmt: skip
    return Comparison(**(fields | changes))


def text(made: Comparison, model: KnownModel | None = None, *, color: bool = False, width: int = 80) -> str:
    out = io.StringIO()
    lines = render(
        made, candidate=Named("mine", ROOT, 22_713_216), reference=Named("theirs", ROOT, 10, model), seconds=1.5
    )
    print_lines(lines, Console(file=out, force_terminal=color, width=width))
    return out.getvalue()


def test_it_says_what_of_whom_since_when_why_and_how_sure():
    claim = Claim(Role.SUBMISSION, label="rival", hotkey=HOTKEY, block=8512345, extrinsic=3)
    shown = text(comparison(), known(claim))
    for piece in ("PERTURBED", "nothing was learned", "rival", HOTKEY, "since block 8512345, extrinsic 3", "99.99999%",
                  "1e-09", "noise:0.01", "100%", "22.7 M", "no trace of learning", "1.000 x sha256:abab"):  # fmt: skip
        assert piece in shown


def test_without_a_copy_nobody_is_accused():
    shown = text(comparison(relation=Relation.SIBLING, false_accusation_probability=1.0))
    assert "no copy is claimed" in shown
    assert "SIBLING  not a copy" in shown


@pytest.mark.parametrize("relation", Relation)
def test_every_relation_reads_at_80_columns_without_colours(relation):
    long = tuple(f"transform-number-{i}:{i}" for i in range(20))
    made = comparison(relation=relation, transforms=long, why="word " * 60)
    lines = text(made).splitlines()
    assert MEANING[relation] in "\n".join(lines)
    assert all(len(line) <= 90 for line in lines), max(lines, key=len)
    assert all(ord(c) < 128 for line in lines for c in line)
    plain = text(made)
    assert "\x1b" not in plain


def test_colours_add_nothing_but_colours():
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", text(comparison(), color=True)) == text(comparison())


def test_many_layers_are_cut_to_the_worst():
    layers = tuple(LayerEvidence(str(i), 0.2 if i == 77 else 0.99, 0.01, 1.0) for i in range(120))
    shown = text(comparison(per_layer=layers))
    assert "77 " in shown
    assert "and 72 more layers" in shown


@pytest.mark.parametrize("hostile", ["\x1b[2J\x1b[31mINDEPENDENT", "[bold red]x[/]", "a\nb\rc", "\u202eevil", "\ud800"])
def test_hostile_names_reach_no_terminal(hostile):
    layers = (LayerEvidence(hostile, 1.0, 0.0, 1.0),)
    model = known(Claim(Role.SUBMISSION, label=hostile, repo=hostile))
    out = io.StringIO()
    made = comparison(per_layer=layers, transforms=(hostile,), why=hostile)
    lines = render(made, candidate=Named(hostile, ROOT), reference=Named(hostile, ROOT, 0, model), seconds=1)
    print_lines([*lines, summary(made, model, 0.1)], Console(file=out, width=80))
    shown = out.getvalue()
    assert not set("\x1b\r\u202e") & set(shown)
    assert len(shown.splitlines()) < 40
    if hostile.startswith("[bold"):
        assert hostile in shown


def test_who_names_the_earliest_and_counts_the_others():
    early, late = (Claim(Role.SUBMISSION, label=n, block=b) for n, b in (("early", 3), ("late", 9)))
    assert who(known(late, early)) == "early, since block 3, claimed by 1 more"
    assert who(known(Claim(Role.BASE))) == "public base"
    assert who(None) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.0, "100%"), (0.99999999, "99.999999%"), (0.9999, "99.99%"), (0.5, "50%"), (0.0, "0%"), (1e-5, "0.001%")],
)
def test_certainty_is_never_rounded_up_to(value, shown):
    assert percent(value) == shown
