"""One report for every miner, out of the arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from .arms import EXPOSED, FRESH, Arms
from .calibrated import Judged
from .components import FEWEST_ITEMS, Components, Field, fresh_means
from .evalues import Process
from .report import INTERVAL, FreshScore, MinerReport, Status
from .results import Results
from .robust import FEWEST

if TYPE_CHECKING:
    from .judge import Decision


def miner_reports(
    results: Results,
    arms: Arms,
    field: Field,
    look: Components,
    decision: Decision,
    process: Process | None,
    *,
    level: float,
) -> tuple[MinerReport, ...]:
    """By hotkey.

    Args:
        results: Rows.
        arms: Their statistics.
        field: What was tested.
        look: Tests of all epochs together.
        decision: Who is named.
        process: E-values, where they decided.
        level: For the alarm.
    """
    fresh = _fresh_scores(results, arms)
    pool = look.tests[0]
    reports = []
    for miner, hotkey in enumerate(results.hotkeys):
        tested = bool(decision.tested[miner])
        alarm = process.alarm(miner, level=level) if process is not None else None
        reports.append(
            MinerReport(
                hotkey=hotkey,
                unit=results.unit_names[results.units[miner]],
                status=_status(tested, bool(decision.named[miner])),
                lift=_number(pool.lift[miner]),
                interval=interval(pool, miner),
                p=_p(look, miner, process) if tested else None,
                q=_number(decision.q[miner]),
                log_e=float(decision.log_e[miner]),
                alarm=None if alarm is None else field.epochs[alarm],
                null=pool.null if process is None else f"supermartingale/ville,of:{pool.null}",
                environments=_environments(look, miner),
                fresh=fresh[miner],
                reason="" if tested else _why_not(arms, miner),
            )
        )
    return tuple(reports)


def interval(judged: Judged, miner: int) -> tuple[float, float] | None:
    """Two-sided Gaussian interval of a miner's lift."""
    lift, scale = judged.lift[miner], judged.scale[miner]
    if not math.isfinite(lift):
        return None
    half = float(stats.norm.isf((1 - INTERVAL) / 2) * scale)
    return float(lift) - half, float(lift) + half


def _p(look: Components, miner: int, process: Process | None) -> float:
    if process is None:
        return float(look.p[miner])
    return math.exp(-max(0.0, min(float(process.now[miner]), 690.0)))


def _environments(look: Components, miner: int) -> dict[str, tuple[float, float, float]]:
    if not look.names:
        return {}  # nothing was measured on both sides anywhere
    tests = look.tests[1:] or look.tests
    return {
        name: (float(t.lift[miner]), float(t.scale[miner]), float(t.p[miner]))
        for name, t in zip(look.names, tests, strict=True)
        if math.isfinite(t.p[miner]) and math.isfinite(t.lift[miner])
    }


def _fresh_scores(results: Results, arms: Arms) -> list[tuple[FreshScore, ...]]:
    names, mean, error, count = fresh_means(results, arms)
    return [
        tuple(
            FreshScore(name, float(mean[miner, e]), float(error[miner, e]), int(count[miner, e]))
            for e, name in enumerate(names)
            if count[miner, e] > 0
        )
        for miner in range(len(results.hotkeys))
    ]


def _status(tested: bool, named: bool) -> Status:
    return Status.FLAGGED if named else Status.CLEAR if tested else Status.INCONCLUSIVE


def _why_not(arms: Arms, miner: int) -> str:
    fresh, exposed = arms.count[FRESH, miner].sum(), arms.count[EXPOSED, miner].sum()
    if min(fresh, exposed) == 0:
        return f"{fresh:.0f} fresh and {exposed:.0f} exposed items: nothing to compare"
    if min(fresh, exposed) < FEWEST_ITEMS:
        return f"{fresh:.0f} fresh and {exposed:.0f} exposed items: at least {FEWEST_ITEMS} of each are needed"
    return f"fewer than {FEWEST} units answered both kinds of items: the field cannot be calibrated"


def _number(value: np.floating | float) -> float | None:
    return float(value) if math.isfinite(value) else None
