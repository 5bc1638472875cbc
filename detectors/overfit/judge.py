"""From results to findings: who trained on exposed items, who leaked.

1. Epochs that have both arms are judged; where none has (old items were scored in earlier epochs), all are one.
2. Exposure by lot: the exact permutation test. Exposure by calendar: the calibrated test against the field.
3. One epoch, or ``once``: p-values, Benjamini-Hochberg over units. Several epochs: e-values and e-BH, so that the
   analysis may be repeated after every epoch.
4. A unit is rejected as a whole, its members are named one by one: an honest hotkey that was put into a cluster by
   mistake is not named for what the others did.
5. Tracers name the validator, with flagged units as suspects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..errors import MalformedFacts
from ..multiplicity import benjamini_hochberg, e_benjamini_hochberg, simes
from .arms import Arms, arms_of
from .components import Components, Field
from .evalues import Process
from .findings import findings_of
from .members import miner_reports
from .report import Exposure, Report
from .results import Bools, Floats, Results
from .strata import by_difficulty
from .tracer import trace

LEVEL: Final = 0.01
"""Default false discovery rate: an accusation that is wrong costs more than one that comes an epoch later."""


@dataclass(frozen=True, eq=False)
class Decision:
    """Who is named.

    Args:
        named: Shape (miners,).
        tested: Shape (miners,).
        q: Adjusted p-value of the miner's unit, shape (miners,); NaN after several epochs.
        log_e: Natural log of each miner's e-value, shape (miners,).
    """

    named: Bools
    tested: Bools
    q: Floats
    log_e: Floats


def judge(
    results: Results,
    *,
    exposure: Exposure,
    rng: np.random.Generator,
    level: float = LEVEL,
    once: bool = False,
) -> Report:
    """The whole analysis.

    Args:
        results: Rows.
        exposure: How items were exposed; ``RANDOMISED`` only where it was drawn by lot (``design``).
        rng: For tests that are sampled; seed it from the results' digest to make the answer reproducible.
        level: False discovery rate over units, in (0, 1/2].
        once: All epochs are looked at this once only: p-values, which are stronger, instead of e-values.

    Raises:
        MalformedFacts: A level out of range, or exposure is said to be randomised and no epoch has both arms.
    """
    if not 0 < level <= 0.5:
        raise MalformedFacts("not a level", where="level", got=level, expected="(0, 0.5]")
    digest = results.digest()
    results, arms = _periods(results, exposure)
    field = field_of(results, arms, exposure, rng)
    look = field.look()
    sequential = len(field.epochs) > 1 and not once
    process = field.sequence() if field.epochs else None
    decision = decide(results, look, process, level=level, sequential=sequential)
    suspects = {int(u) for u in results.units[decision.named]}
    validators = trace(results, suspects=suspects, level=level, rng=rng)
    miners = miner_reports(results, arms, field, look, decision, process if sequential else None, level=level)
    found, evidence = findings_of(results, miners, validators, digest=digest, exposure=exposure, level=level)
    return Report(
        results=digest,
        exposure=exposure,
        level=level,
        sequential=sequential,
        epochs=tuple(field.epochs),
        miners=miners,
        validators=validators,
        findings=found,
        evidence=evidence,
    )


def field_of(results: Results, arms: Arms, exposure: Exposure, rng: np.random.Generator) -> Field:
    """What can be tested: by lot within groups of like difficulty, by calendar in whole cells."""
    if exposure is Exposure.RANDOMISED:
        grouped = by_difficulty(results)
        return Field(grouped, arms_of(grouped), exposure, rng)
    return Field(results, arms, exposure, rng)


def decide(results: Results, look: Components, process: Process | None, *, level: float, sequential: bool) -> Decision:
    """Who is named, at the level, over units."""
    tested = np.isfinite(look.p)
    log_e = process.now if process is not None else np.zeros(tested.shape)
    q = np.full(tested.shape, np.nan)
    units = [u for u in range(len(results.unit_names)) if tested[results.units == u].any()]
    members = [np.flatnonzero((results.units == u) & tested) for u in units]
    if sequential:
        return Decision(_by_e(members, log_e, level) & tested, tested, q, log_e)
    return Decision(_by_p(members, look.p, q, level) & tested, tested, q, log_e)


def _by_p(members: Sequence[np.ndarray], p: Floats, q: Floats, level: float) -> Bools:
    """BH over units by Simes; within a rejected unit BH at the level its rejection left (Benjamini-Bogomolov)."""
    named = np.zeros(p.shape, dtype=bool)
    adjusted = benjamini_hochberg([simes([float(v) for v in p[m]]) for m in members])
    rejected = adjusted <= level
    within = level * rejected.sum() / max(len(members), 1)
    for place, miners in enumerate(members):
        q[miners] = adjusted[place]
        if rejected[place]:
            named[miners] = benjamini_hochberg(p[miners]) <= within
    return named


def _by_e(members: Sequence[np.ndarray], log_e: Floats, level: float) -> Bools:
    """e-BH over units by mean e-values; in a rejected unit those that pass the unit's own threshold."""
    named = np.zeros(log_e.shape, dtype=bool)
    means = np.array([np.logaddexp.reduce(log_e[m]) - np.log(m.size) for m in members])
    rejected = e_benjamini_hochberg(means, level=level)
    if rejected.any():
        threshold = np.log(len(members) / (level * rejected.sum()))
        for place, miners in enumerate(members):
            if rejected[place]:
                named[miners] = log_e[miners] >= threshold
    return named


def _periods(results: Results, exposure: Exposure) -> tuple[Results, Arms]:
    arms = arms_of(results)
    if (arms.weight > 0).any():
        return results, arms
    if exposure is Exposure.RANDOMISED:
        raise MalformedFacts(
            "exposure cannot have been drawn by lot",
            where="results",
            got="no epoch in which a miner has exposed and fresh items",
            remedy="Judge it as exposed by calendar.",
        )
    merged = results.merged_epochs()
    return merged, arms_of(merged)
