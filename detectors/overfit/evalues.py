"""Evidence that may be looked at every epoch: products of e-values, with an alarm at 1 / level.

A p-value that is computed again after every epoch will fall below any level sooner or later. An e-value has mean at
most 1 under the null given the past, so products of one a epoch form a supermartingale, and by Ville's inequality the
chance that it ever reaches 1/level is at most the level, however often one looks and whenever one stops (Ramdas et
al., Statistical Science 2023). Each product bets on one lift in one *component* (all environments together, or one of
them); the process is their mixture, so the best bet wins at the price of its share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from .calibrated import Judged
from .permutation import LIFTS
from .results import Floats


@dataclass(frozen=True, eq=False)
class Process:
    """A running e-process for every miner.

    Args:
        path: Natural logs of the e-value after each epoch, shape (epochs, miners).
    """

    path: Floats

    @property
    def now(self) -> Floats:
        """After the last epoch, shape (miners,)."""
        return np.asarray(self.path[-1])

    def alarm(self, miner: int, *, level: float) -> int | None:
        """Index of the first epoch at which the miner's e-value reached 1 / level."""
        over = np.flatnonzero(self.path[:, miner] >= -math.log(level))
        return int(over[0]) if over.size else None


def process(log_e: Floats, prior: Sequence[float]) -> Process:
    """Multiply over epochs and mix over bets.

    Args:
        log_e: Natural logs, shape (epochs, miners, components, lifts); 0 where a miner has no items.
        prior: Share of each component, summing to 1; lifts share alike.
    """
    running = np.cumsum(log_e, axis=0)
    share = np.log(np.asarray(prior, dtype=float))[:, None] - math.log(log_e.shape[3])
    return Process(np.asarray(logsumexp(running + share, axis=(2, 3))))


def from_judged(judged: Judged) -> Floats:
    """Logs of e-values of a test that gives p-values and a scale, shape (miners, lifts).

    The p-value is turned into the Gaussian quantile it has under the null, and the likelihood ratio of a shift by
    lift / scale is taken there.
    """
    log_e = np.zeros((judged.p.size, len(LIFTS)))
    known = np.isfinite(judged.p) & (judged.scale > 0)
    z = stats.norm.isf(judged.p[known])
    for column, lift in enumerate(LIFTS):
        shift = lift / judged.scale[known]
        log_e[known, column] = shift * z - shift**2 / 2
    return log_e


def prior_of(components: int) -> list[float]:
    """Half on all environments together, half shared by each alone."""
    return [1.0] if components == 1 else [0.5] + [0.5 / (components - 1)] * (components - 1)
