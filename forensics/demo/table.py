"""What the demo prints: one row a commitment, what each answer was worth, and the sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import Any

from rich import box
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from forensics.demo.play import Judged

STYLES = {"copy": "bold red", "work": "green", "wrong": "bold white on red", "quiet": "dim"}


def table(judged: Sequence[Judged]) -> Table:
    """Commitments in block order; truth is in the column ``did``, the tool's answer in the others."""
    made = Table(title="Who copied whom, and who did not", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("block", justify="right", no_wrap=True)
    made.add_column("miner", no_wrap=True)
    made.add_column("what they did", max_width=30)
    made.add_column("answer", no_wrap=True)
    made.add_column("of, since block", max_width=20)
    made.add_column("undone or found", max_width=34)
    made.add_column("sure", justify="right", no_wrap=True)
    made.add_column("s", justify="right", no_wrap=True)
    made.add_column("marked", no_wrap=True)
    for one in judged:
        made.add_row(*_row(one))
    return made


def _row(one: Judged) -> list[RenderableType]:
    answer = one.answer
    kind = Text(answer.relation, style=STYLES["copy" if answer.copy else "work"])
    if answer.copy:
        kind.append("\na copy", style=STYLES["copy"])
    return [
        f"{one.block:,}",
        one.miner.name,
        one.miner.did,
        kind,
        _of(one),
        Text(", ".join(answer.transforms) or "-", style="" if answer.transforms else STYLES["quiet"]),
        f"{answer.confidence:.3f}" if answer.confidence < 0.9995 else ">.999",
        f"{answer.seconds:.1f}",
        _mark(one),
    ]


def _of(one: Judged) -> Text:
    if not one.answer.of:
        return Text("nobody known", style=STYLES["quiet"])
    several = len(one.answer.of) > 1
    parts = [f"{weight:.2f} {label}" if several else label for label, weight in one.answer.of]
    since = f", {one.answer.since:,}" if one.answer.since is not None and not several else ""
    return Text(" + ".join(parts) + since)


def _mark(one: Judged) -> Text:
    if one.accused:
        return Text("ACCUSED", style=STYLES["wrong"])
    if one.missed:
        return Text("MISSED", style=STYLES["wrong"])
    if one.right:
        return Text("true", style="green")
    if one.answer.relation in one.miner.relations:
        return Text(f"not {one.answer.of[0][0]}'s" if one.answer.of else "whose?", style="yellow")
    return Text(f"not {one.answer.relation}", style="yellow")


def summary(judged: Sequence[Judged], seconds: float) -> Text:
    """One line: how much of it was true."""
    copies = [one for one in judged if one.miner.copy]
    honest = [one for one in judged if not one.miner.copy]
    caught = sum(not one.missed for one in copies)
    accused = sum(one.accused for one in honest)
    right = sum(one.right for one in judged)
    return Text(
        f"{caught} of {len(copies)} copies caught, {accused} of {len(honest)} honest miners accused; "
        f"relation and parent true for {right} of {len(judged)}. {seconds:.0f} s in all.",
        style="bold",
    )


def show(judged: Sequence[Judged], *, seconds: float, console: Console) -> None:
    """Print the table and the sum."""
    console.print(Group(table(judged), summary(judged, seconds)), markup=False, highlight=False)


def draw(judged: Sequence[Judged], *, seconds: float, width: int) -> str:
    """The same as a self-contained SVG: no font or style is fetched from anywhere."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    show(judged, seconds=seconds, console=console)
    return console.export_svg(title="make demo", code_format=_without_web_fonts(CONSOLE_SVG_FORMAT))


def document(judged: Sequence[Judged], *, seconds: float) -> dict[str, Any]:
    """The same for a program."""
    return {
        "commitments": [
            {
                "miner": one.miner.name,
                "block": one.block,
                "did": one.miner.did,
                "relation": one.answer.relation,
                "copy": one.answer.copy,
                "of": [{"label": label, "weight": weight} for label, weight in one.answer.of],
                "since": one.answer.since,
                "transforms": list(one.answer.transforms),
                "confidence": one.answer.confidence,
                "false_accusation_probability": one.answer.false_accusation,
                "why": one.answer.why,
                "seconds": one.answer.seconds,
                "expected": [relation.value for relation in one.miner.relations],
                "right": one.right,
                "accused": one.accused,
                "missed": one.missed,
            }
            for one in judged
        ],
        "seconds": seconds,
    }


def _without_web_fonts(template: str) -> str:
    """Drop rich's @font-face rules, which point at a content network; the viewer's own monospace font serves."""
    return re.sub(r"@font-face \{\{.*?\}\}\s*", "", template, flags=re.DOTALL)
