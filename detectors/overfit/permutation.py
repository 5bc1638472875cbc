"""Exact tests that one arm's scores are no higher than the other's, when items were put into arms by lot.

Under the null a miner's scores do not depend on which of the items went into the arm, so the arm's sum has the
distribution of a random subset's sum within each stratum. For scores of 0 and 1 that is a convolution of
hypergeometric distributions, computed in full. For other scores it is sampled, with Besag and Clifford's (1991)
sequential p-value: honest miners cost few draws, and the p-value is valid whenever sampling stops. Scores of a stratum
fall into at most ``LEVELS`` levels first; a permutation test is exact for any statistic, so that costs power only.

The same distribution gives an e-value: exp(tilt T) over its mean under the null (for samples the soft-rank form,
whose mean over exchangeable draws is 1), one for each lift of a fixed set, so that epochs can be multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from .results import Bools, Floats, Ints

LEVELS: Final = 64
DRAWS: Final = 99_999
"""Most draws for one p-value, so the smallest sampled one is 1e-5."""
FIRST: Final = 9_999
"""Draws that also make the e-value, a fixed number as its validity asks."""
STOP: Final = 25
"""Draws at least as high as the observed sum after which sampling may stop."""
LIFTS: Final = (0.025, 0.05, 0.1, 0.2, 0.4)
"""Lifts that e-values bet on, in equal parts, in units of the score's range (1 for right or wrong)."""


@dataclass(frozen=True, eq=False)
class Stratum:
    """Items that the lot could have swapped.

    Args:
        levels: Distinct values, ascending, shape (k,).
        counts: How many items have each, shape (k,).
        taken: How many of each are in the tested arm, shape (k,).
    """

    levels: Floats
    counts: Ints
    taken: Ints

    @property
    def sum(self) -> float:
        """The tested arm's sum."""
        return float(self.levels @ self.taken)

    @property
    def size(self) -> int:
        """Items in all."""
        return int(self.counts.sum())

    @property
    def arm(self) -> int:
        """Items in the tested arm."""
        return int(self.taken.sum())

    @property
    def variance(self) -> float:
        """Variance of the arm's sum under the null."""
        n, k = self.size, self.arm
        mean = self.levels @ self.counts / n
        return float(k * (n - k) / n * (self.counts @ (self.levels - mean) ** 2) / max(n - 1, 1))

    @property
    def per_lift(self) -> float:
        """How much the arm's sum rises by a lift of 1 between the arms' means."""
        return self.arm * (self.size - self.arm) / self.size


@dataclass(frozen=True, eq=False)
class Tested:
    """One miner's test.

    Args:
        p: One-sided p-value, never 0.
        log_e: Natural log of the e-value for each of ``LIFTS``.
        draws: Draws it took; 0 when the distribution was computed in full.
    """

    p: float
    log_e: Floats
    draws: int


def stratum(score: Floats, tested: Bools) -> Stratum | None:
    """Scores of one miner in one stratum; None when an arm is empty, which says nothing."""
    if tested.all() or not tested.any():
        return None
    levels, code = np.unique(score, return_inverse=True)
    if levels.size > LEVELS:
        low, high = levels[0], levels[-1]
        grid = np.minimum((LEVELS * (score - low) / (high - low)).astype(np.int64), LEVELS - 1)
        used, code = np.unique(grid, return_inverse=True)
        levels = low + (used + 0.5) * (high - low) / LEVELS
    counts = np.bincount(code, minlength=levels.size)
    return Stratum(levels, counts, np.bincount(code[tested], minlength=levels.size))


def test(strata: Sequence[Stratum], rng: np.random.Generator) -> Tested | None:
    """The test over strata together; None when there is nothing to test.

    Strata of other scales than 0 and 1 are divided by their own standard deviation, else one would outweigh all.
    """
    strata = [s for s in strata if s.arm and s.arm < s.size]
    if not strata:
        return None
    if all(s.levels.size <= 2 and set(s.levels) <= {0.0, 1.0} for s in strata):
        return _full(strata)
    return _sampled([_standardised(s) for s in strata], rng)


def _full(strata: Sequence[Stratum]) -> Tested:
    pmf, low, seen = np.ones(1), 0, 0
    for s in strata:
        ones = int(s.counts[s.levels == 1.0].sum())
        seen += int(s.taken[s.levels == 1.0].sum())
        least, most = max(0, s.arm + ones - s.size), min(s.arm, ones)
        support = np.arange(least, most + 1)
        pmf = np.convolve(pmf, stats.hypergeom.pmf(support, s.size, ones, s.arm))
        low += least
    support = low + np.arange(pmf.size)
    p = float(pmf[support >= seen].sum())
    with np.errstate(divide="ignore"):
        log_pmf = np.log(pmf)
    log_e = np.array([t * seen - float(logsumexp(t * support + log_pmf)) for t in _tilts(strata, 1.0)])
    return Tested(min(1.0, max(p, 1e-300)), log_e, 0)


def _sampled(strata: Sequence[Stratum], rng: np.random.Generator) -> Tested:
    observed = sum(s.sum for s in strata)
    slack = 1e-9 * max(1.0, abs(observed))  # equal sums added in another order are equal
    draws = _draw(strata, FIRST, rng)
    p, done = _sequential(draws >= observed - slack)
    log_e = []
    for tilt in _tilts(strata, float(np.mean([s.levels[-1] - s.levels[0] for s in strata]))):
        mean = float(logsumexp(tilt * np.append(draws, observed))) - np.log(draws.size + 1)
        log_e.append(tilt * observed - mean)
    reached = draws >= observed - slack
    while not done and reached.size < DRAWS:
        more = _draw(strata, min(FIRST + 1, DRAWS - reached.size), rng)
        reached = np.append(reached, more >= observed - slack)
        p, done = _sequential(reached)
    return Tested(p, np.array(log_e), int(reached.size))


def _sequential(reached: Bools) -> tuple[float, bool]:
    """Besag and Clifford's p-value, and whether sampling may stop."""
    hits = np.flatnonzero(reached)
    if hits.size >= STOP:
        return STOP / float(hits[STOP - 1] + 1), True
    return (hits.size + 1) / (reached.size + 1), False


def _draw(strata: Sequence[Stratum], size: int, rng: np.random.Generator) -> Floats:
    total = np.zeros(size)
    for s in strata:
        total += rng.multivariate_hypergeometric(s.counts, s.arm, size=size) @ s.levels
    return total


def _tilts(strata: Sequence[Stratum], span: float) -> list[float]:
    """Per lift, the tilt of the arm's sum that is optimal against it: shift over variance."""
    variance = sum(s.variance for s in strata)
    shift = sum(s.per_lift for s in strata) * span
    return [lift * shift / variance if variance > 0 else 0.0 for lift in LIFTS]


def _standardised(s: Stratum) -> Stratum:
    mean = s.levels @ s.counts / s.size
    deviation = float(np.sqrt(s.counts @ (s.levels - mean) ** 2 / s.size))
    return Stratum((s.levels - mean) / (deviation or 1.0), s.counts, s.taken)
