"""Means and variances of each miner's fresh and exposed items, by cell; tracers are left out.

Two variances are kept. The raw one belongs to a lone mean. The *paired* one is what remains after each item's own
difficulty is taken away: all miners answer the same items, so difficulty moves them together and cancels between
them; counting it as noise would hide every small lift. An item's difficulty is its mean over units, and the miner's
own share of that mean is corrected for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .results import NOBODY, Floats, Ints, Results

FRESH: Final = 0
EXPOSED: Final = 1


@dataclass(frozen=True, eq=False)
class Arms:
    """Statistics of shape (2, miners, cells): first fresh, then exposed.

    Args:
        count: Number of items.
        mean: Mean score; NaN where there is no item.
        raw: Variance of scores.
        paired: Variance of scores after the items' difficulty.
    """

    count: Floats
    mean: Floats
    raw: Floats
    paired: Floats

    @property
    def weight(self) -> Floats:
        """Information on the difference of arms, shape (miners, cells): half the harmonic mean of counts."""
        fresh, exposed = self.count
        total = fresh + exposed
        return np.asarray(fresh * exposed / np.maximum(total, 1))

    @property
    def gap(self) -> Floats:
        """Exposed minus fresh, shape (miners, cells); NaN where an arm is empty."""
        return np.asarray(self.mean[EXPOSED] - self.mean[FRESH])


def arms_of(results: Results) -> Arms:
    """All cells of all miners."""
    used = results.item_validator[results.item] == NOBODY
    item, miner, score = results.item[used], results.miner[used], results.score[used]
    cell, arm = results.item_cell[item], results.item_exposed[item].astype(np.int64)
    shape = (2, len(results.hotkeys), len(results.cells))
    flat = (arm * shape[1] + miner) * shape[2] + cell
    size = shape[0] * shape[1] * shape[2]
    count = np.bincount(flat, minlength=size).astype(float)
    mean = _mean(flat, score, count)
    raw = _variance(flat, score, mean, count)
    residual = _without_difficulty(results.units[miner], item, score, len(results.items), alone=score - mean[flat])
    paired = _variance(flat, residual, _mean(flat, residual, count), count)
    mean[count == 0] = np.nan
    pooled = _pool(raw, paired, count, shape)
    return Arms(count.reshape(shape), mean.reshape(shape), *pooled)


def _without_difficulty(unit: Ints, item: Ints, score: Floats, items: int, *, alone: Floats) -> Floats:
    """Scores less the mean of the *other* units on the same item; ``alone`` where no other unit answered it."""
    span = int(unit.max(initial=0)) + 1
    pair, inverse, sizes = np.unique(item * span + unit, return_inverse=True, return_counts=True)
    unit_mean = np.bincount(inverse, weights=score) / sizes
    pair_item = pair // span
    units = np.bincount(pair_item, minlength=items)[item]
    others = np.bincount(pair_item, weights=unit_mean, minlength=items)[item] - unit_mean[inverse]
    return np.where(units > 1, score - others / np.maximum(units - 1, 1), alone)


def _mean(flat: Ints, value: Floats, count: Floats) -> Floats:
    return np.asarray(np.bincount(flat, weights=value, minlength=count.size) / np.maximum(count, 1))


def _variance(flat: Ints, value: Floats, mean: Floats, count: Floats) -> Floats:
    squares = np.bincount(flat, weights=(value - mean[flat]) ** 2, minlength=count.size)
    return np.asarray(squares / np.maximum(count - 1, 1))


def _pool(raw: Floats, paired: Floats, count: Floats, shape: tuple[int, int, int]) -> tuple[Floats, Floats]:
    """Each variance with one observation of the cell's typical one: all-equal scores do not mean no noise."""
    counts = count.reshape(shape)
    pooled = []
    for variance in (raw.reshape(shape), paired.reshape(shape)):
        freedom = np.maximum(counts - 1, 0)
        typical = (variance * freedom).sum(axis=(0, 1)) / np.maximum(freedom.sum(axis=(0, 1)), 1)
        pooled.append((variance * freedom + typical) / (freedom + 1))
    return pooled[0], pooled[1]
