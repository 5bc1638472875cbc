"""Exact tests that one arm's scores are no higher than the other's, when items were put into arms by lot.

Under the null a miner's scores do not depend on which of the items went into the arm, so the arm's sum has the
distribution of a random subset's sum within each stratum. For scores of 0 and 1 that is a convolution of
hypergeometric distributions, computed in full. For other scores it is sampled, with Besag and Clifford's (1991)
sequential p-value: honest miners cost few draws, and the p-value is valid whenever sampling stops. Lots of one size are
shared by all miners: a lot knows nothing of the scores, so each miner's test stays exact.

The same distribution gives an e-value: exp(tilt T) over its mean under the null (for samples the soft-rank form,
whose mean over exchangeable draws is 1), one for each lift of a fixed set, so that epochs can be multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammaln, logsumexp

from .results import Bools, Floats, Ints

DRAWS: Final = 99_999
"""Most draws for one p-value, so the smallest sampled one is 1e-5."""
FIRST: Final = 9_999
"""Draws that also make the e-value, a fixed number as its validity asks."""
STOP: Final = 25
"""Draws at least as high as the observed sum after which sampling may stop."""
LIFTS: Final = (0.025, 0.05, 0.1, 0.2, 0.4)
"""Lifts that e-values bet on, in equal parts, in units of the score's range (1 for right or wrong)."""
_CHUNK: Final = 4_000_000  # entries of a matrix of lots


@dataclass(frozen=True, eq=False)
class Stratum:
    """Scores of one miner on items that the lot could have swapped.

    Args:
        score: The tested arm's scores first, shape (items,).
        arm: Items in the tested arm, at least 1 and fewer than all.
    """

    score: Floats
    arm: int

    @property
    def sum(self) -> float:
        """The tested arm's sum."""
        return float(self.score[: self.arm].sum())

    @property
    def size(self) -> int:
        """Items in all."""
        return int(self.score.size)

    @property
    def variance(self) -> float:
        """Variance of the arm's sum under the null."""
        n, k = self.size, self.arm
        return float(k * (n - k) / n * self.score.var(ddof=1))

    @property
    def per_lift(self) -> float:
        """How much the arm's sum rises by a lift of 1 between the arms' means."""
        return self.arm * (self.size - self.arm) / self.size

    @property
    def binary(self) -> bool:
        """Whether scores are right or wrong."""
        return bool(((self.score == 0.0) | (self.score == 1.0)).all())


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
    return Stratum(np.concatenate([score[tested], score[~tested]]), int(tested.sum()))


def test(strata: Sequence[Stratum], rng: np.random.Generator) -> Tested | None:
    """The test of one miner over strata together; None when there is nothing to test."""
    return test_all([strata], rng)[0]


def test_all(miners: Sequence[Sequence[Stratum]], rng: np.random.Generator) -> list[Tested | None]:
    """The test of every miner, each over its strata together; None for who has none.

    Strata of other scales than 0 and 1 are divided by their own standard deviation, else one would outweigh all.
    """
    found: list[Tested | None] = [None] * len(miners)
    alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for index, strata in enumerate(miners):
        if strata and all(s.binary for s in strata):
            found[index] = _full(strata)
        elif strata:
            alike.setdefault(tuple((s.size, s.arm) for s in strata), []).append(index)
    for members in alike.values():
        scaled = [[_standardised(s) for s in miners[index]] for index in members]
        for index, tested in zip(members, _sampled(scaled, rng), strict=True):
            found[index] = tested
    return found


def _full(strata: Sequence[Stratum]) -> Tested:
    pmf, low, seen = np.ones(1), 0, 0
    for s in strata:
        ones = int(s.score.sum())
        seen += int(s.sum)
        least, most = max(0, s.arm + ones - s.size), min(s.arm, ones)
        pmf = np.convolve(pmf, _hypergeometric(np.arange(least, most + 1), s.size, ones, s.arm))
        low += least
    support = low + np.arange(pmf.size)
    # All of the distribution is 1, not the sum of its rounded parts.
    p = 1.0 if seen == low else float(pmf[support >= seen].sum())
    with np.errstate(divide="ignore"):
        log_pmf = np.log(pmf / pmf.sum())
    log_e = np.array([t * seen - float(logsumexp(t * support + log_pmf)) for t in _tilts(strata, 1.0)])
    return Tested(min(1.0, max(p, 1e-300)), log_e, 0)


def _hypergeometric(hits: Ints, size: int, ones: int, arm: int) -> Floats:
    """P(``hits`` of the arm's items are ones); scipy's own takes a hundred times as long to start."""
    log = _choose(ones, hits) + _choose(size - ones, arm - hits) - _choose(size, arm)
    return np.asarray(np.exp(log))


def _choose(n: int, k: Ints | int) -> Floats:
    return np.asarray(gammaln(n + 1.0) - gammaln(np.asarray(k) + 1.0) - gammaln(n - np.asarray(k) + 1.0))


def _sampled(miners: Sequence[Sequence[Stratum]], rng: np.random.Generator) -> list[Tested]:
    """Miners whose strata have the same sizes, so that they can share lots."""
    observed = np.array([sum(s.sum for s in strata) for strata in miners])
    enough = observed - 1e-9 * np.maximum(1.0, np.abs(observed))  # equal sums in another order are equal
    draws = _draw(miners, FIRST, rng)
    log_e = [_soft_rank(strata, draws[:, i], observed[i]) for i, strata in enumerate(miners)]
    reached = [draws[:, i] >= enough[i] for i in range(len(miners))]
    open_ = [i for i in range(len(miners)) if reached[i].sum() < STOP]
    while open_ and reached[open_[0]].size < DRAWS:
        more = _draw([miners[i] for i in open_], FIRST + 1, rng)
        for column, i in enumerate(open_):
            reached[i] = np.append(reached[i], more[:, column] >= enough[i])[:DRAWS]
        open_ = [i for i in open_ if reached[i].sum() < STOP]
    return [Tested(_sequential(hit), e, int(hit.size)) for hit, e in zip(reached, log_e, strict=True)]


def _soft_rank(strata: Sequence[Stratum], draws: Floats, observed: float) -> Floats:
    log_e = []
    for tilt in _tilts(strata, float(np.mean([np.ptp(s.score) for s in strata]))):
        mean = float(logsumexp(tilt * np.append(draws, observed))) - np.log(draws.size + 1)
        log_e.append(tilt * observed - mean)
    return np.array(log_e)


def _sequential(reached: Bools) -> float:
    """Besag and Clifford's p-value."""
    hits = np.flatnonzero(reached)
    if hits.size >= STOP:
        return STOP / float(hits[STOP - 1] + 1)
    return float((hits.size + 1) / (reached.size + 1))


def _draw(miners: Sequence[Sequence[Stratum]], size: int, rng: np.random.Generator) -> Floats:
    """Sums of random arms of the same sizes, shape (size, miners)."""
    total = np.zeros((size, len(miners)))
    for place, like in enumerate(miners[0]):
        scores = np.column_stack([strata[place].score for strata in miners])
        step = max(1, _CHUNK // like.size)
        for start in range(0, size, step):
            rows = min(step, size - start)
            chosen = rng.random((rows, like.size)).argpartition(like.arm - 1, axis=1)[:, : like.arm]
            lots = np.zeros((rows, like.size))
            np.put_along_axis(lots, chosen, 1.0, axis=1)
            total[start : start + rows] += lots @ scores
    return total


def _tilts(strata: Sequence[Stratum], span: float) -> list[float]:
    """Per lift, the tilt of the arm's sum that is optimal against it: shift over variance."""
    variance = sum(s.variance for s in strata)
    shift = sum(s.per_lift for s in strata) * span
    return [lift * shift / variance if variance > 0 else 0.0 for lift in LIFTS]


def _standardised(s: Stratum) -> Stratum:
    return Stratum((s.score - s.score.mean()) / (float(s.score.std()) or 1.0), s.arm)
