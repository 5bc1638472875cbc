"""Many hypotheses at once: Benjamini-Hochberg, Holm, Simes, and e-BH.

A field has hundreds of miners; each tested at 5% accuses a dozen honest ones every epoch. BH (1995) keeps the
expected share of false ones among the flagged below its level under independence or positive dependence. Holm (1979)
and e-BH (Wang and Ramdas, JRSS-B 2022) hold under any dependence. Simes (1986) makes one p-value of a group: k equal
p-values, as exact copies have, count as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """BH-adjusted p-values (q-values), shape (n,): reject those at most the level."""
    p = np.asarray(p_values, dtype=float)
    if p.size == 0:
        return p
    order = np.argsort(p, kind="stable")
    ranked = p[order] * p.size / np.arange(1, p.size + 1)
    q = np.empty_like(p)
    q[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return q


def holm(p_values: ArrayLike) -> Floats:
    """Holm-adjusted p-values, shape (n,): the chance of any false rejection stays below the level."""
    p = np.asarray(p_values, dtype=float)
    if p.size == 0:
        return p
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    return adjusted


def simes(p_values: Sequence[float]) -> float:
    """One p-value of a group under positive dependence; of k equal ones, that one."""
    ranked = np.sort(np.asarray(p_values, dtype=float))
    return float(min(1.0, np.min(ranked * ranked.size / np.arange(1, ranked.size + 1))))


def e_benjamini_hochberg(log_e: ArrayLike, *, level: float) -> Bools:
    """Which e-values to reject so that the false discovery rate is at most ``level``, whatever the dependence.

    Args:
        log_e: Natural logs of e-values, shape (n,).
        level: In (0, 1).
    """
    e = np.asarray(log_e, dtype=float)
    if e.size == 0:
        return np.zeros(0, dtype=bool)
    descending = np.sort(e)[::-1]
    enough = descending >= np.log(e.size / (level * np.arange(1, e.size + 1)))
    if not enough.any():
        return np.zeros(e.size, dtype=bool)
    return np.asarray(e >= descending[np.flatnonzero(enough)[-1]])
