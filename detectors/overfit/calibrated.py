"""Old against fresh where exposure was not randomised: the field itself says how much harder fresh items are.

delta = (old - fresh) - f(fresh), with f a robust curve over units; z = delta / max(standard error, spread of delta over
units). Whatever makes fresh items harder for everybody is in f; what makes them harder for some and not for others is
in the spread. The test is blind to a field of which most trained on the old items, and says so where it cannot
calibrate; only randomised exposure (``design``) is free of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .arms import FRESH, Arms
from .results import Floats, Ints
from .robust import fit, spread

FEWEST_FOR_SHAPE = 60
"""Units below which spread is taken to be the same at all abilities."""
SHAPE = (0.7, 1.5)
"""Bounds of a miner's spread over the typical one."""
TINIEST = 1e-300
"""p-values are never 0: nothing here is impossible under the null."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One test of every miner, arrays of shape (miners,); NaN where it could not be made.

    Args:
        lift: Estimated gain on exposed items.
        scale: Its standard error (for the calibrated test: what lift is divided by).
        p: One-sided p-value.
        null: The null that was used.
    """

    lift: Floats
    scale: Floats
    p: Floats
    null: str


def calibrated(arms: Arms, units: Ints, cells: Sequence[int]) -> Judged:
    """The test on the given cells together.

    Args:
        arms: Statistics.
        units: Unit of each miner, shape (miners,).
        cells: Indices of cells.
    """
    weight = arms.weight[:, cells]
    delta, inflation, freedom = _deltas(arms, units, cells)
    usable = np.isfinite(delta) & (weight > 0)
    weight = np.where(usable, weight, 0.0)
    total = weight.sum(axis=1)
    known = total > 0
    share = weight / np.where(known, total, 1.0)[:, None]
    lift = np.where(known, (share * np.where(usable, delta, 0.0)).sum(axis=1), np.nan)
    error = np.sqrt((share**2 * np.where(usable, inflation * _variance(arms, cells), 0.0)).sum(axis=1))
    of_units = per_unit(lift[:, None], units)[:, 0]
    of_units = of_units[np.isfinite(of_units)]
    if of_units.size == 0:
        return Judged(lift, error, np.full(lift.shape, np.nan), "calibrated/none")
    fresh = (share * np.where(usable, np.nan_to_num(arms.mean[FRESH][:, cells]), 0.0)).sum(axis=1)
    scale = np.maximum(error, spread(of_units) * _shape(fresh, lift, units))
    p = np.full(lift.shape, np.nan)
    p[known] = np.maximum(stats.t.sf(lift[known] / scale[known], max(freedom, 1)), TINIEST)
    null = f"calibrated/curve:bisquare,units={of_units.size},scale=max(se,mad),tail=t{freedom}"
    return Judged(lift, scale, p, null)


def _shape(fresh: Floats, lift: Floats, units: Ints) -> Floats:
    """How spread depends on ability, around 1: harder items move those most who were neither sure nor lost."""
    x, y = per_unit(fresh[:, None], units)[:, 0], per_unit(lift[:, None], units)[:, 0]
    known = np.isfinite(x) & np.isfinite(y)
    curve = fit(x[known], np.abs(y[known])) if known.sum() >= FEWEST_FOR_SHAPE else None
    if curve is None:
        return np.ones_like(fresh)
    typical = float(np.median(curve.at(x[known])))
    return np.asarray(np.clip(curve.at(fresh) / max(typical, 1e-12), *SHAPE))


def per_unit(values: Floats, units: Ints) -> Floats:
    """Mean over each unit's miners, ignoring NaN; (miners, k) becomes (units, k)."""
    known = np.isfinite(values)
    size = int(units.max(initial=-1)) + 1
    total, count = np.zeros((size, values.shape[1])), np.zeros((size, values.shape[1]))
    np.add.at(total, units, np.where(known, values, 0.0))
    np.add.at(count, units, known)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _variance(arms: Arms, cells: Sequence[int]) -> Floats:
    with np.errstate(divide="ignore"):
        per_arm = arms.paired[:, :, cells] / arms.count[:, :, cells]
    return np.asarray(per_arm.sum(axis=0))


def _deltas(arms: Arms, units: Ints, cells: Sequence[int]) -> tuple[Floats, Floats, int]:
    """Gap less the field's curve, and how much the curve's own error inflates its variance, each (miners, cells)."""
    fresh, gap = arms.mean[FRESH][:, cells], arms.gap[:, cells]
    delta, inflation = np.full_like(gap, np.nan), np.ones_like(gap)
    freedom = []
    unit_fresh, unit_gap = per_unit(np.where(np.isfinite(gap), fresh, np.nan), units), per_unit(gap, units)
    for column in range(len(cells)):
        known = np.isfinite(unit_gap[:, column])
        curve = fit(unit_fresh[known, column], unit_gap[known, column])
        if curve is None:
            continue
        both = np.isfinite(gap[:, column])
        x = fresh[both, column]
        delta[both, column] = gap[both, column] - curve.at(x)
        inflation[both, column] = 1 + curve.leverage(x)
        freedom.append(curve.freedom)
    return delta, inflation, min(freedom, default=0)
