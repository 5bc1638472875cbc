"""A comparison for a person: what it is, of whom, since when, why, how sure, and a bar per layer.

It must read the same without colours, at 80 columns and on a terminal that knows only ASCII. Every text that came
from outside (names, labels, addresses) is escaped, and rich never parses markup in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from fingerprint.compare.relation import Comparison, LayerEvidence, Relation

from .known.claim import KnownModel
from .text import printable

WIDTH = 80  # the narrowest terminal that is still common; wider ones get longer bars
WIDEST = 110
BAR = 24
LAYERS_SHOWN = 48  # more than that are shown by their worst
MEANING: Mapping[Relation, str] = {
    Relation.IDENTICAL: "a copy: the same values",
    Relation.EQUIVALENT: "a copy: the same function, written differently",
    Relation.PERTURBED: "a copy: changed, but nothing was learned",
    Relation.DERIVED: "not a copy: it descends from the reference and learned something",
    Relation.MERGED: "made of two or more known models",
    Relation.SIBLING: "not a copy: both descend from a common base",
    Relation.PARTIAL: "some parts come from the reference, others do not",
    Relation.INDEPENDENT: "no sign of a common origin",
    Relation.INCONCLUSIVE: "cannot be decided",
}


@dataclass(frozen=True)
class Named:
    """How a report names one side.

    Attributes:
        text: What the user called it (a path, a repository, a label).
        content_root: Its identity.
        parameters: How many parameters it has.
        known: Its registry entry, when it has one.
    """

    text: str
    content_root: str
    parameters: int = 0
    known: KnownModel | None = None


def render(
    comparison: Comparison, *, candidate: Named, reference: Named, known: Iterable[KnownModel] = (), seconds: float
) -> list[Text]:
    """The report as lines of styled text, each at most ``WIDTH`` columns apart from unbroken names.

    Args:
        comparison: The outcome.
        candidate: The candidate's names.
        reference: The reference's names.
        known: Registry entries that parents may be named by.
        seconds: What it took.
    """
    by_root = {model.content_root: model for model in known}
    if reference.known is not None:
        by_root[reference.known.content_root] = reference.known
    lines = [_verdict(comparison), *_wrapped(comparison.why), Text()]
    lines += _side("candidate", candidate) + _side("reference", reference) + [Text()]
    lines += _facts(comparison)
    lines += _parents(comparison, by_root)
    lines += _layers(comparison.per_layer)
    lines += [Text(), _field("made", f"in {seconds:.2f} s at {comparison.depth.value} depth, by")]
    lines += [_field("", row) for row in _pack(comparison.algorithm.split("/"), WIDTH - _MARGIN, glue="/")]
    return lines


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print without wrapping inside names, markup or highlighting."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def who(model: KnownModel | None) -> str:
    """Whose a known model is and since when, on one line."""
    if model is None or (claim := model.earliest) is None:
        return ""
    c = claim.claim
    parts = [c.label, c.repo if c.repo != c.label else "", f"hotkey {c.hotkey}" if c.hotkey else ""]
    if c.block is not None:
        parts.append(f"since block {c.block}" + (f", extrinsic {c.extrinsic}" if c.extrinsic is not None else ""))
    elif c.role.value == "base":
        parts.append("public base")
    others = sum(s.active for s in model.submissions) - 1
    parts.append(f"claimed by {others} more" if others else "")
    return printable(", ".join(part for part in parts if part))


def short(digest: str) -> str:
    """A digest that fits a line and can still be looked up."""
    return digest[:23]


def percent(value: float) -> str:
    """A fraction, never rounded up to certainty: 0.99999 is 99.999%."""
    if 0.9995 <= value < 1:
        return f"{100 - float(f'{100 * (1 - value):.1g}'):.10g}%"
    return f"{100 * value:.4g}%"


def _verdict(comparison: Comparison) -> Text:
    style = "bold red" if comparison.copy else "bold yellow" if comparison.relation in _UNDECIDED else "bold green"
    text = Text(comparison.relation.value.upper(), style=style)
    return text.append(f"  {MEANING[comparison.relation]}", style="default")


_UNDECIDED = {Relation.INCONCLUSIVE, Relation.PARTIAL, Relation.MERGED}


def _side(title: str, side: Named) -> list[Text]:
    size = f"  ({_count(side.parameters)} parameters)" if side.parameters else ""
    lines = [_field(title, printable(side.text) + size), _field("", side.content_root)]
    named = who(side.known)
    return [*lines, _field("", named)] if named else lines


def _facts(comparison: Comparison) -> list[Text]:
    false = f"{comparison.false_accusation_probability:.2g}" if comparison.copy else "none: no copy is claimed"
    lines = [
        _field("confidence", percent(comparison.confidence)),
        _field("false accusation", f"probability {false}" if comparison.copy else false),
        _field("explained", f"{percent(comparison.coverage)} of the candidate's parameters"),
    ]
    transforms = comparison.transforms or ("none",)
    lines += [_field("transforms" if i == 0 else "", row) for i, row in enumerate(_pack(transforms, WIDTH - _MARGIN))]
    return lines


def _parents(comparison: Comparison, known: Mapping[str, KnownModel]) -> list[Text]:
    lines = []
    for i, parent in enumerate(comparison.parents):
        name = who(known.get(parent.digest))
        text = f"{parent.weight:.3f} x {short(parent.digest)}" + (f"  {name}" if name else "")
        lines.append(_field("parents" if i == 0 else "", text))
    return lines


def _layers(evidence: tuple[LayerEvidence, ...]) -> list[Text]:
    if not evidence:
        return []
    shown = evidence
    if len(evidence) > LAYERS_SHOWN:
        worst = sorted(range(len(evidence)), key=lambda i: evidence[i].similarity)[:LAYERS_SHOWN]
        shown = tuple(evidence[i] for i in sorted(worst))
    width = min(30, max(5, *(len(printable(e.name)) for e in shown)))
    head = f"{'layer':<{width}}  {'similarity':<{BAR + 8}}  {'change':>8}  {'explained':>9}"
    lines = [Text(), Text(head, style="bold")]
    lines += [_layer(e, width) for e in shown]
    if len(shown) < len(evidence):
        lines.append(Text(f"... and {len(evidence) - len(shown)} more layers, all of them closer"))
    return lines


def _layer(evidence: LayerEvidence, width: int) -> Text:
    name = printable(evidence.name)
    name = name if len(name) <= width else name[: width - 1] + "~"
    filled = round(BAR * min(1.0, max(0.0, evidence.similarity)))
    text = Text(f"{name:<{width}}  ")
    text.append("#" * filled, style="red" if evidence.similarity > 0.9 else "yellow")
    text.append("." * (BAR - filled) + f"  {evidence.similarity:6.3f}")
    return text.append(f"  {evidence.delta:8.3g}  {percent(evidence.explained):>9}")


_MARGIN = 18


def _field(title: str, value: str) -> Text:
    return Text(f"{title:<{_MARGIN}}", style="bold").append(value, style="not bold")


def _wrapped(text: str) -> list[Text]:
    return [Text(row) for row in _pack(printable(text).split(), WIDTH, glue=" ")]


def _pack(words: Iterable[str], width: int, glue: str = ", ") -> list[str]:
    """Words in rows of at most ``width`` columns."""
    rows = [""]
    for word in map(printable, words):
        joined = rows[-1] + glue + word if rows[-1] else word
        if len(joined) > width and rows[-1]:
            rows[-1] += glue.rstrip()
            rows.append(word)
        else:
            rows[-1] = joined
    return rows


def _count(number: int) -> str:
    """22713216 becomes 22.7 M."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def summary(comparison: Comparison, model: KnownModel, distance: float) -> Text:
    """A known model that was also compared, on one line."""
    text = Text(f"  {comparison.relation.value:<13}{distance:<9.3g}{short(model.content_root)}  ")
    return text.append(who(model))
