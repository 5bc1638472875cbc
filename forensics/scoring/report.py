"""The result for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ..text import printable
from .affine import weights_response
from .comparing import Difference
from .run import Against, Row, Scoring, Standing
from .seats import Seated

if TYPE_CHECKING:
    from rich.text import Text

SCHEMA: Final = "forensics/weights/v1"
_NAME: Final = 16
_ROWS: Final = 300


def document(scoring: Scoring, seated: Seated, *, block: int | None = None) -> dict[str, Any]:
    """The result as one JSON document; ``weights`` is Affine's shape, by uid, or by hotkey when no uid is known."""
    by_uid = {str(uid): weight for uid, weight in seated.by_uid.items()}
    weights = by_uid if by_uid else seated.by_hotkey
    said = weights_response(block, scoring.policy, weights)
    hotkeys = [row.submission.hotkey for row in scoring.rows]
    return said | {
        "schema": SCHEMA,
        "weights_by": "uid" if by_uid else "hotkey",
        "by_hotkey": seated.by_hotkey,
        "burned": scoring.burned,
        "burn_uid": scoring.policy.burn_uid,
        "crown": hotkeys[scoring.crowns[-1]] if scoring.crowns else None,
        "crowns": [hotkeys[place] for place in scoring.crowns],
        "verdicts": None if scoring.reading is None else scoring.reading.document(),
        "environments": [environment.name for environment in scoring.field.environments],
        "models": [_model(row, scoring, seated) for row in scoring.rows],
        "alarms": [{"code": a.code, "detail": a.detail} for a in (*scoring.alarms, *seated.alarms)],
        "notes": [*scoring.notes, *seated.notes],
    }


def render(scoring: Scoring, seated: Seated) -> Iterator[Text]:
    """The result as a table and a line for each model of why."""
    from rich.text import Text

    environments = [environment.name for environment in scoring.field.environments]
    head = "".join(f" {_cut(name, 9):>9}" for name in environments)
    yield Text(f"{'hotkey':<{_NAME}} {'uid':>5}  {'standing':<9} {'mult':>6} {'weight':>8}{head}", style="bold")
    ranked = sorted(scoring.rows, key=lambda row: (-row.weight, -row.earned, row.standing is Standing.OUT, row.place))
    for row in ranked[:_ROWS]:
        yield _line(row, environments, seated)
    if len(ranked) > _ROWS:
        yield Text(f"... and {len(ranked) - _ROWS} more without weight; --json has them all")
    yield Text(f"burned {scoring.burned:.4f} (uid {scoring.policy.burn_uid})")
    yield Text()
    for row in ranked[:_ROWS]:
        yield Text(f"{_cut(row.submission.hotkey, _NAME):<{_NAME}} {printable(why(row, scoring))}")
    yield Text()
    policy = scoring.policy
    yield Text(f"policy {policy.name} v{policy.version} {policy.digest[:19]}, {policy.rule}, alpha {policy.alpha:g}")
    if scoring.reading is not None:
        yield Text("verdicts " + printable(scoring.reading.why))
    for note in (*scoring.notes, *seated.notes):
        yield Text("note: " + printable(note))


def why(row: Row, scoring: Scoring) -> str:
    """One line: what became of a model, because of whom, where and by how much."""
    if row.standing is Standing.OUT:
        return f"does not compete: {row.submission.excluded}"
    said = [_reason(row, scoring)]
    if row.judged.multiplier < 1:
        said.append(f"x {row.judged.multiplier:g} ({row.judged.why})")
    if row.earned != row.weight:
        said.append(f"{row.earned:.4f} earned, {row.weight:.4f} paid")
    if row.attempt is not None and row.attempt.number > 1:
        said.append(f"attempt {row.attempt.number} of its lineage, alpha {row.attempt.alpha:.2g}")
    return "; ".join(said)


def _reason(row: Row, scoring: Scoring) -> str:
    if not row.against:
        return "first to commit, wears the crown" if row.standing is Standing.CROWN else str(row.standing)
    return "; ".join(_against(against, scoring) for against in row.against[-1:])


def _against(against: Against, scoring: Scoring) -> str:
    other = _cut(scoring.rows[against.other].submission.hotkey, _NAME)
    return f"{against.role} {other}: {_decisive(against)}"


def _decisive(against: Against) -> str:
    """The environments that decided."""
    wanted = {
        "held by": (),
        "short of": ("better",) if against.later else ("worse", "missing"),
        "no worse than": ("better",),
    }.get(against.role, ("better",))
    found = [d for d in against.differences if d.result in wanted]
    if found:
        return ", ".join(_difference(d) for d in found[:3]) + (", ..." if len(found) > 3 else "")
    nearest = max(against.differences, key=_nearness, default=None)
    return "nothing to compare" if nearest is None else f"nowhere better; nearest {_difference(nearest)}"


def _nearness(difference: Difference) -> float:
    if not math.isfinite(difference.difference) or not difference.margin:
        return -math.inf
    better = difference.later - difference.earlier
    return abs(better) / difference.margin if math.copysign(1, better) == math.copysign(1, difference.difference) else 0


def _difference(difference: Difference) -> str:
    if difference.result in ("missing", "not compared"):
        return f"{printable(difference.environment)} {difference.result}"
    needed = difference.tolerance if difference.result == "worse" else difference.margin
    word = "tolerance" if difference.result == "worse" else "margin"
    return f"{printable(difference.environment)} {difference.difference:+.4g} ({word} {needed:.3g})"


def _line(row: Row, environments: list[str], seated: Seated) -> Text:
    from rich.text import Text

    style = {Standing.CROWN: "bold green", Standing.FRONT: "green", Standing.OUT: "red"}.get(row.standing, "")
    uid = seated.seats.get(row.submission.hotkey)
    cells = "".join(f" {row.scores[name][0]:>9.4g}" if name in row.scores else f" {'-':>9}" for name in environments)
    head = f"{_cut(row.submission.hotkey, _NAME):<{_NAME}} {'-' if uid is None else uid:>5}  {row.standing:<9}"
    return Text(f"{head} {row.judged.multiplier:>6.4g} {row.weight:>8.4f}{cells}", style=style)


def _model(row: Row, scoring: Scoring, seated: Seated) -> dict[str, Any]:
    submission = row.submission
    return {
        "hotkey": submission.hotkey,
        "revision": submission.revision,
        "uid": seated.seats.get(submission.hotkey),
        "block": submission.block,
        "extrinsic": submission.extrinsic,
        "standing": str(row.standing),
        "weight": row.weight,
        "earned": row.earned,
        "multiplier": row.judged.multiplier,
        "judged": row.judged.known,
        "verdict": row.judged.why,
        "excluded": submission.excluded or None,
        "lineage": None if row.attempt is None else row.attempt.lineage,
        "attempt": None if row.attempt is None else row.attempt.number,
        "alpha": None if row.attempt is None else row.attempt.alpha,
        "scores": {name: {"mean": mean, "samples": count} for name, (mean, count) in row.scores.items()},
        "why": why(row, scoring),
        "against": [_comparison(against, scoring) for against in row.against],
    }


def _comparison(against: Against, scoring: Scoring) -> dict[str, Any]:
    other = scoring.rows[against.other].submission
    return {
        "role": against.role,
        "hotkey": other.hotkey,
        "revision": other.revision,
        "environments": {
            d.environment: {
                "result": d.result,
                "later": d.later,
                "earlier": d.earlier,
                "difference": d.difference,
                "margin": d.margin,
                "tolerance": d.tolerance,
                "items": d.items,
            }
            for d in against.differences
        },
    }


def _cut(name: str, width: int) -> str:
    text = printable(name)
    return text if len(text) <= width else text[: width - 1] + "~"
