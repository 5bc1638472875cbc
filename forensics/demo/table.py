"""What the demo prints: a row a uid, as a validator reads it; what each verdict was worth, the sum, and what to try."""

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

from attest.predicates.verdict import Status
from forensics.demo.next_steps import Step
from forensics.demo.verdict import COSTLY, Judged

STYLES = {"cost": "bold red", "work": "green", "wrong": "bold white on red", "quiet": "dim", "held": "yellow"}
HOTKEY, DIGEST = 7, 10  # characters shown
WIDE = 110  # columns of a terminal from which everything is shown


def table(judged: Sequence[Judged], *, narrow: bool = False) -> Table:
    """By uid; truth is in the column ``what they did``, what the client read in those after it.

    Args:
        judged: The rows.
        narrow: Leave out evidence and seconds.
    """
    made = Table(title="What a validator reads", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("uid", justify="right", no_wrap=True)
    made.add_column("miner", no_wrap=True)
    made.add_column("what they did", max_width=28)
    made.add_column("status", no_wrap=True)
    made.add_column("times", justify="right", no_wrap=True)
    made.add_column("reason", no_wrap=True)
    made.add_column("of", max_width=19)
    made.add_column("marked", no_wrap=True)
    if not narrow:
        made.add_column("evidence", no_wrap=True)
        made.add_column("s", justify="right", no_wrap=True)
    for one in judged:
        made.add_row(*_row(one)[: len(made.columns)])
    return made


def _row(one: Judged) -> list[RenderableType]:
    answer = one.answer
    return [
        str(one.uid),
        Text.assemble(one.miner.name, "\n", (f"{one.miner.hotkey[:HOTKEY]}…", STYLES["quiet"])),
        one.miner.did,
        Text(str(answer.status), style=_style(answer.status)),
        Text(f"{answer.multiplier:.1f}", style=_style(answer.status)),
        Text(answer.code or answer.relation or "-", style="" if answer.code or answer.relation else STYLES["quiet"]),
        _of(one),
        _mark(one),
        Text((answer.evidence or "-").removeprefix("sha256:")[:DIGEST], style=STYLES["quiet"]),
        "-" if one.seconds is None else f"{one.seconds:.1f}",
    ]


def _style(status: Status) -> str:
    if status in COSTLY:
        return STYLES["cost"]
    if status in (Status.CLEAR, Status.WATCH):
        return STYLES["work"]
    return STYLES["held"] if status is Status.HELD else STYLES["quiet"]


def _of(one: Judged) -> Text:
    if not one.answer.of:
        return Text("-", style=STYLES["quiet"])
    several = len(one.answer.of) > 1
    return Text(" + ".join(f"{weight:.2f} {name}" if several else name for name, weight in one.answer.of))


def _mark(one: Judged) -> Text:
    if one.accused:
        return Text("ACCUSED", style=STYLES["wrong"])
    if one.missed:
        return Text("held" if one.answer.status is Status.HELD else "MISSED", style=STYLES["wrong"])
    if one.right:
        return Text("true", style="green")
    if one.answer.status is Status.UNKNOWN:
        return Text("not judged", style="yellow")
    if not one.true_relation:
        return Text(f"not {one.answer.relation}" if one.answer.relation else "whose?", style="yellow")
    return Text(f"not {one.answer.of[0][0]}'s" if one.answer.of else "whose?", style="yellow")


def summary(judged: Sequence[Judged], seconds: float) -> Text:
    """One line: how much of it was true, and how long it took."""
    copies = [one for one in judged if one.miner.copy]
    honest = [one for one in judged if not one.miner.copy]
    caught = sum(one.caught for one in copies)
    accused = sum(one.accused for one in honest)
    right = sum(one.right for one in judged)
    waited = sorted(one.seconds for one in judged if one.seconds is not None)
    median = f" From commitment to signed verdict: median {waited[len(waited) // 2]:.1f} s," if waited else ""
    longest = f" longest {waited[-1]:.1f} s." if waited else ""
    return Text(
        f"{caught} of {len(copies)} copies caught, {accused} of {len(honest)} honest miners accused; "
        f"verdicts true for {right} of {len(judged)} uids.{median}{longest} {seconds:.0f} s in all.",
        style="bold",
    )


def steps(shown: Sequence[Step]) -> Text:
    """What was checked, and what to try."""
    text = Text()
    for step in shown:
        text.append(f"\n{step.title}", style="bold" if step.good else STYLES["wrong"])
        if step.command:
            text.append(f"\n  {step.command}", style="cyan")
        for line in step.said:
            text.append(f"\n  {line}", style=STYLES["quiet"])
    return text


def show(judged: Sequence[Judged], shown: Sequence[Step], *, seconds: float, console: Console) -> None:
    """Print the table, the sum and the steps; lines that are commands are not broken."""
    narrow = console.width < WIDE
    console.print(Group(table(judged, narrow=narrow), summary(judged, seconds)), markup=False, highlight=False)
    console.print(steps(shown), markup=False, highlight=False, soft_wrap=True)


def draw(judged: Sequence[Judged], *, seconds: float, width: int) -> str:
    """The table and the sum as a self-contained SVG: no font or style is fetched from anywhere."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    show(judged, (), seconds=seconds, console=console)
    return console.export_svg(title="make demo", code_format=_without_web_fonts(CONSOLE_SVG_FORMAT))


def document(
    judged: Sequence[Judged], shown: Sequence[Step], *, seconds: float, service: dict[str, Any]
) -> dict[str, Any]:
    """The same for a program."""
    return {
        "service": service,
        "uids": [_document(one) for one in judged],
        "steps": [{"title": s.title, "command": s.command, "good": s.good, "said": list(s.said)} for s in shown],
        "copies": sum(one.miner.copy for one in judged),
        "caught": sum(one.caught for one in judged),
        "honest": sum(not one.miner.copy for one in judged),
        "accused": sum(one.accused for one in judged),
        "right": sum(one.right for one in judged),
        "seconds": seconds,
    }


def _document(one: Judged) -> dict[str, Any]:
    answer = one.answer
    return {
        "uid": one.uid,
        "miner": one.miner.name,
        "hotkey": one.miner.hotkey,
        "block": one.block,
        "did": one.miner.did,
        "status": str(answer.status),
        "multiplier": answer.multiplier,
        "reason": answer.code or None,
        "relation": answer.relation or None,
        "copy": answer.copy,
        "of": [{"label": label, "weight": weight} for label, weight in answer.of],
        "confidence": answer.confidence,
        "false_accusation_probability": answer.false_accusation,
        "evidence": answer.evidence,
        "seconds": one.seconds,
        "expected": [relation.value for relation in one.miner.relations] or [one.miner.unknown],
        "right": one.right,
        "accused": one.accused,
        "missed": one.missed,
    }


def _without_web_fonts(template: str) -> str:
    """Drop rich's @font-face rules, which point at a content network; the viewer's own monospace font serves."""
    return re.sub(r"@font-face \{\{.*?\}\}\s*", "", template, flags=re.DOTALL)
