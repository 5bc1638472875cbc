"""The gauntlet's one table, and the figures it is judged by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.gauntlet.judge import Outcome

LIMITS = {
    "full": {"missed": 0.01, "relation": 0.95, "parent": 0.99},
    "sketch": {"missed": 0.03, "relation": 0.90, "parent": 0.97},
}
"""What the issue Fingerprint asks for, by depth; false accusations must be none."""

QUICK_MISSED = {"full": 0.1, "sketch": 1.0}
"""CI's quick run has too few attacks for the full limits; it guards recall at full depth, and accusations at both."""


def summarise(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Figures by depth, over attacks and over non-copies (controls count as non-copies)."""
    return {depth: _depth([o for o in outcomes if o.depth == depth]) for depth in ("full", "sketch")}


def _depth(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    copies = [o for o in outcomes if o.copy]
    others = [o for o in outcomes if not o.copy]
    attacks = [o for o in outcomes if o.kind == "attack" and o.group != "control"]
    accused = [o for o in others if o.flagged]
    return {
        "copies": len(copies),
        "missed": _rate(copies, lambda o: not o.flagged),
        "non_copies": len(others),
        "accused": len(accused),
        "accusations": [f"{o.family}/{o.name}~{o.victim}" for o in accused],
        "relation": _rate(attacks, lambda o: o.relation in o.accepted),
        "honest_relation": _rate([o for o in others if o.kind == "honest"], lambda o: o.relation in o.accepted),
        "parent": _rate([o for o in attacks if o.parents_right is not None], lambda o: bool(o.parents_right)),
        "learned_score_non_copies": _five([o.numbers["learned.score"] for o in others if _scored(o)]),
        "learned_score_copies": _five([o.numbers["learned.score"] for o in copies if _scored(o)]),
        "fap_copies": _five([o.fap for o in copies if o.flagged]),
        "seconds": _five([o.seconds for o in outcomes]),
        "rivals": {
            rival: {
                "missed": _rate(copies, lambda o, r=rival: not o.rivals.get(r, False)),
                "accused": sum(o.rivals.get(rival, False) for o in others),
            }
            for rival in sorted({r for o in outcomes for r in o.rivals})
        },
    }


def _scored(outcome: Outcome) -> bool:
    return outcome.numbers.get("learned.matrices", 0.0) > 0


def _rate(outcomes: Sequence[Outcome], test: Callable[[Outcome], bool]) -> float:
    return sum(test(o) for o in outcomes) / len(outcomes) if outcomes else 0.0


def _five(values: Iterable[float]) -> list[float]:
    data = list(values)
    return [float(v) for v in np.quantile(data, [0, 0.01, 0.5, 0.99, 1])] if data else []


def render(outcomes: Sequence[Outcome], summary: dict[str, Any]) -> str:
    """Rows per attack (or kind of honest pair), then the totals."""
    rows: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for o in outcomes:
        rows[(o.kind, o.group, o.name if o.kind == "attack" else "")].append(o)
    lines = [f"{'':44s} {'full depth':>24s}   {'sketch depth':>24s}", f"{'':44s}" + " pairs  right flagged parent" * 2]
    for (kind, group, name), members in sorted(rows.items()):
        label = f"{kind}/{group}" + (f"/{name}" if name and name != group else "")
        cells = []
        for depth in ("full", "sketch"):
            here = [o for o in members if o.depth == depth]
            parents = [o for o in here if o.parents_right is not None]
            right = f"{_rate(here, lambda o: o.relation in o.accepted):6.1%}" if here else "     -"
            flagged = f"{sum(o.flagged for o in here):4d}/{len(here):<4d}" if here else "    -    "
            parent = f"{_rate(parents, lambda o: bool(o.parents_right)):6.1%}" if parents else "     -"
            cells.append(f"{len(here):5d} {right} {flagged} {parent}")
        lines.append(f"{label[:44]:44s} " + "  ".join(cells))
    lines.append("")
    for depth, s in summary.items():
        lines.append(
            f"{depth}: copies {s['copies']}, missed {s['missed']:.2%}; non-copies {s['non_copies']}, falsely accused "
            f"{s['accused']}; right relation {s['relation']:.1%} (honest {s['honest_relation']:.1%}); right parent "
            f"{s['parent']:.1%}"
        )
        for rival, r in s["rivals"].items():
            lines.append(f"    rival {rival}: missed {r['missed']:.1%}, falsely accused {r['accused']}")
        if s["accusations"]:
            lines.append("    accused: " + ", ".join(s["accusations"][:12]))
    return "\n".join(lines) + "\n"


def verdict(summary: dict[str, Any], *, quick: bool) -> int:
    """Exit code: 0 when every limit is met, 1 otherwise."""
    for depth, limits in LIMITS.items():
        s = summary[depth]
        if s["accused"] or s["missed"] > (QUICK_MISSED[depth] if quick else limits["missed"]):
            return 1
        if not quick and (s["relation"] < limits["relation"] or s["parent"] < limits["parent"]):
            return 1
    return 0
