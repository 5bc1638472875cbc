"""Alpha is spent per lineage and operator, in commit order.

Every model that challenges an earlier one is an attempt. The k-th attempt of a lineage may take something it does not
deserve with probability alpha / (k (k + 1)) at most, which sums to alpha over any number of attempts. What is spent on
an attempt depends on earlier ones only: no later registration can raise or lower the bar for an earlier model, so
nobody can undo a rival's success by flooding its lineage (Bonferroni over the final count would allow that).

A lineage is what verdicts connect: a parent that is itself in the competition, one content, one operator's cluster,
one hotkey. A known base that everybody started from connects nobody. Connections count from the later model on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

RADEMACHER: Final = 1 / (4 * (1 - NormalDist().cdf(2**0.5)))
"""3.178: P(sum of a_i s_i >= x |a|) <= 3.178 P(Z >= x) for random signs s_i and any a, and no smaller constant does
(Bentkus and Dzindzalieta 2015, Bernoulli 21(2))."""


@dataclass(frozen=True)
class Attempt:
    """What a model may spend.

    Args:
        lineage: Number of the lineage it belonged to when it came.
        number: The how-many-th attempt of that lineage; 0 for a model that challenges nobody.
        alpha: What it may spend.
    """

    lineage: int
    number: int
    alpha: float


def spend(groups: Sequence[Iterable[str]], alpha: float) -> tuple[Attempt, ...]:
    """Give each competing model its alpha.

    Args:
        groups: For each model in commit order, the names of what connects it to others.
        alpha: Of a lineage, over all its attempts.
    """
    lineages = _Lineages()
    attempts = []
    for place, names in enumerate(groups):
        root = lineages.join(place, names)
        number = lineages.attempt(root) if place else 0
        attempts.append(Attempt(root, number, alpha / (number * (number + 1)) if number else alpha))
    return tuple(attempts)


def quantiles(alphas: Sequence[float], *, environments: int, symmetric: bool) -> NDArray[np.float64]:
    """How many standard errors a difference must have in one of ``environments`` to be no chance, for each alpha.

    Args:
        alphas: Over all environments together.
        environments: How many are looked at.
        symmetric: Whether the bound must hold exactly for paired differences of a model and its copy, which are
            symmetric about zero: the Rademacher constant is paid then, and no number of items is too small.
    """
    found: NDArray[np.float64] = -ndtri(np.asarray(alphas) / environments / (RADEMACHER if symmetric else 1.0))
    return found


class _Lineages:
    """Connected models, joined as they come."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._attempts: list[int] = []
        self._first: dict[str, int] = {}

    def join(self, place: int, names: Iterable[str]) -> int:
        """Add a model and connect it to earlier ones that share a name; its lineage."""
        self._parent.append(place)
        self._attempts.append(0)
        for name in names:
            other = self._first.setdefault(name, place)
            mine, theirs = self._root(place), self._root(other)
            if mine != theirs:
                low, high = sorted((mine, theirs))
                self._parent[high] = low
                self._attempts[low] += self._attempts[high]
        return self._root(place)

    def attempt(self, root: int) -> int:
        """Count one more attempt of a lineage; its number."""
        self._attempts[root] += 1
        return self._attempts[root]

    def _root(self, place: int) -> int:
        while self._parent[place] != place:
            self._parent[place] = self._parent[self._parent[place]]
            place = self._parent[place]
        return place
