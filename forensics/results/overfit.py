"""The overfit analysis as the service runs it: reproducible, and as a page for people or a document for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.text import Text

from detectors.overfit.design import check_exposed
from detectors.overfit.judge import judge
from detectors.overfit.report import Exposure, MinerReport, Report, Status
from detectors.overfit.results import Results
from detectors.overfit.tracer import Traced

from ..text import printable

SHOWN = 20
"""Clear miners that are printed; all are in the JSON."""
_NAME = 16


def analyse(
    results: Results, *, level: float, randomised: bool = False, key: bytes | None = None, once: bool = False
) -> Report:
    """Judge rows; the same rows give the same answer, for what is sampled is seeded by their digest.

    Args:
        results: Rows.
        level: False discovery rate.
        randomised: Exposure was drawn by lot.
        key: The lot's key, if it is to be checked; implies ``randomised``.
        once: Use p-values over several epochs.
    """
    if key is not None:
        check_exposed(results, key=key)
    exposure = Exposure.RANDOMISED if randomised or key is not None else Exposure.CALENDAR
    seed = int(results.digest().removeprefix("sha256:"), 16)
    return judge(results, exposure=exposure, rng=np.random.default_rng(seed), level=level, once=once)


def document(report: Report) -> dict[str, Any]:
    """The analysis as JSON."""
    return {
        "results": report.results,
        "exposure": report.exposure.value,
        "level": report.level,
        "sequential": report.sequential,
        "epochs": list(report.epochs),
        "flagged": [m.hotkey for m in report.flagged],
        "leaking": [v.validator for v in report.leaking],
        "miners": [_miner(m) for m in report.miners],
        "validators": [_validator(v) for v in report.validators],
        "findings": [dict(f.document()) | {"digest": f.digest} for f in report.findings],
        "evidence": dict(report.evidence),
    }


def render(report: Report) -> Iterator[Text]:
    """The analysis for a person: who is named first, then the rest by evidence."""
    yield _headline(report)
    yield Text()
    ordered = sorted(report.miners, key=lambda m: (m.status is not Status.FLAGGED, m.p if m.p is not None else 2.0))
    shown = [m for i, m in enumerate(ordered) if m.status is Status.FLAGGED or i < SHOWN]
    yield Text(
        f"{'hotkey':<{_NAME}}  {'':<12}  {'lift':>7}  {'95% interval':^17}  {'p':>8}  {'fresh':>6}", style="bold"
    )
    for miner in shown:
        yield _line(miner)
    if len(shown) < len(ordered):
        yield Text(f"... and {len(ordered) - len(shown)} more, none of them flagged")
    if report.validators:
        yield Text()
        yield Text(
            f"{'validator':<{_NAME}}  {'':<12}  {'lift':>7}  {'own items':^17}  {'p':>8}  {'told':>6}", style="bold"
        )
        for traced in report.validators:
            yield _traced(traced)
    yield Text()
    yield from _caveats(report)


def _headline(report: Report) -> Text:
    named = len(report.flagged)
    text = Text(
        f"{named} of {len(report.miners)} miners do better on exposed items than their difficulty explains",
        style="bold red" if named else "bold",
    )
    if report.validators:
        leaks = ", ".join(_short(v.validator) for v in report.leaking)
        text.append(f"; leaked by {leaks}" if leaks else "; no validator leaked")
    return text


def _line(miner: MinerReport) -> Text:
    style = "red" if miner.status is Status.FLAGGED else ""
    lift = "" if miner.lift is None else f"{miner.lift:+.3f}"
    between = "" if miner.interval is None else f"{miner.interval[0]:+.3f} .. {miner.interval[1]:+.3f}"
    p = "" if miner.p is None else _p(miner.p)
    fresh = "" if miner.fresh_score is None else f"{miner.fresh_score:.3g}"
    row = f"{_short(miner.hotkey):<{_NAME}}  {miner.status.value:<12}  {lift:>7}  {between:^17}  {p:>8}  {fresh:>6}"
    return Text(row + (f"  {miner.reason}" if miner.reason else ""), style=style)


def _traced(traced: Traced) -> Text:
    word = "leaked" if traced.named else "clear"
    told = sum(t.named for t in traced.told)
    row = f"{_short(traced.validator):<{_NAME}}  {word:<12}  {traced.lift:>+7.3f}  {traced.items:^17}"
    return Text(f"{row}  {_p(traced.p):>8}  {told:>6}", style="red" if traced.named else "")


def _caveats(report: Report) -> Iterator[Text]:
    if report.exposure is Exposure.CALENDAR:
        yield Text(
            "Exposure was not drawn by lot: the field's own curve says what is normal, and a field of which most"
        )
        yield Text("trained on old items looks normal to it. Lift is what exceeds the curve.")
    else:
        yield Text("Exposure was drawn by lot: exact permutation test within environment and epoch.")
    if report.sequential:
        yield Text(f"{len(report.epochs)} epochs: e-values decide (p is 1/e), so this may be repeated every epoch.")
    yield Text(f"Of those named, at most {100 * report.level:g}% are expected to be honest.")
    yield Text("`fresh` is the score on fresh items alone, to use instead.")


def _p(value: float) -> str:
    return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _NAME else text[: _NAME - 1] + "~"


def _miner(miner: MinerReport) -> dict[str, Any]:
    return {
        "hotkey": miner.hotkey,
        "unit": miner.unit,
        "status": miner.status.value,
        "flagged": miner.status is Status.FLAGGED,
        "lift": miner.lift,
        "interval": list(miner.interval) if miner.interval else None,
        "p_value": miner.p,
        "q_value": miner.q,
        "log10_e_value": miner.log_e / math.log(10),
        "alarm_epoch": miner.alarm,
        "null": miner.null,
        "environments": {
            name: {"lift": lift, "error": error, "p_value": p} for name, (lift, error, p) in miner.environments.items()
        },
        "fresh_score": miner.fresh_score,
        "fresh": {f.environment: {"score": f.score, "error": f.error, "items": f.items} for f in miner.fresh},
        "reason": miner.reason or None,
    }


def _validator(traced: Traced) -> dict[str, Any]:
    return {
        "validator": traced.validator,
        "items": traced.items,
        "leaked": traced.named,
        "lift": traced.lift,
        "p_value": traced.p,
        "adjusted_p_value": traced.adjusted,
        "told": [
            {"hotkey": t.hotkey, "lift": t.lift, "p_value": t.p, "adjusted_p_value": t.adjusted, "named": t.named}
            for t in traced.told
        ],
    }
