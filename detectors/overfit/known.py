"""How much a score speaks for the item having been known: a likelihood ratio for every unit and item.

Without knowledge a unit of ability a answers an item of difficulty d rightly with probability p = 1 / (1 + exp(d - a))
(Rasch 1960). Who knows a share f of the items answers those rightly, and so with probability p + f (1 - p). The ratio
is worth most where p is small: a right answer to a hard item is what ability explains worst. Against counting all right
answers alike it is worth a sixth more tracers.

Abilities and difficulties are fitted together, per cell, from fresh items, by Newton steps with Gaussian priors;
nothing of the fit looks at who received which item, so a test that draws the lot again stays exact whatever the fit is
worth. Scores that are not two-valued enter as their ranks within the cell, for only their order has a meaning there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.stats import rankdata

from .results import Bools, Floats

SHARES: Final = (0.125, 0.25, 0.5)
"""Shares of items known that the ratio bets on; at p = .5 a share of .25 lifts the score by .125."""
LEAST: Final = 0.02
"""Smallest chance of a right answer that is believed: one lucky guess must not outweigh everything else."""
ABILITY_VARIANCE: Final = 4.0
DIFFICULTY_VARIANCE: Final = 4.0
_STEPS: Final = 12
_FAR: Final = 8.0  # logits


def unit_scale(score: Floats) -> Floats:
    """Scores of one cell brought into [0, 1]: two values become 0 and 1, others their mid-ranks over their number."""
    if score.size == 0:
        return score
    low, high = float(score.min()), float(score.max())
    if high == low:
        return np.full_like(score, 0.5)
    if ((score == low) | (score == high)).all():
        return np.asarray((score == high).astype(float))
    return np.asarray((rankdata(score) - 0.5) / score.size)


def chances(score: Floats, answered: Floats, judges: Bools) -> Floats:
    """Chance of a right answer where nobody knew anything.

    Args:
        score: In [0, 1], shape (units, items); anything where not answered.
        answered: 1 where there is a score, else 0, shape (units, items).
        judges: Units by which difficulty is judged: not those under suspicion, shape (units,).

    Returns:
        Shape (units, items), within ``LEAST`` and 1 - ``LEAST``.
    """
    ability, difficulty = np.zeros(score.shape[0]), np.zeros(score.shape[1])
    voting = answered * judges[:, None]
    for _ in range(_STEPS):
        gap, curvature = _slopes(ability, difficulty, score)
        force = (gap * voting).sum(axis=0) + (difficulty - difficulty.mean()) / DIFFICULTY_VARIANCE
        difficulty -= np.clip(force / ((curvature * voting).sum(axis=0) + 1 / DIFFICULTY_VARIANCE), -1, 1)
        difficulty = np.clip(difficulty, -_FAR, _FAR)
        gap, curvature = _slopes(ability, difficulty, score)
        force = (gap * answered).sum(axis=1) - (ability - ability.mean()) / ABILITY_VARIANCE
        ability += np.clip(force / ((curvature * answered).sum(axis=1) + 1 / ABILITY_VARIANCE), -1, 1)
        ability = np.clip(ability, -_FAR, _FAR)
    return np.clip(_logistic(ability[:, None] - difficulty), LEAST, 1 - LEAST)


def log_ratios(score: Floats, chance: Floats, share: float) -> Floats:
    """Natural log of P(score | this share known) / P(score | none), the shape of ``score``."""
    right = np.log1p(share * (1 - chance) / chance)
    return np.asarray(score * right + (1 - score) * np.log1p(-share))


def _slopes(ability: Floats, difficulty: Floats, score: Floats) -> tuple[Floats, Floats]:
    p = _logistic(ability[:, None] - difficulty)
    return score - p, p * (1 - p)


def _logistic(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))
