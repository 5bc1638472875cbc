"""Rules for taking the crown: ours, as ``forensics score`` runs it, and simpler ones beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forensics.scoring import front
from forensics.scoring.comparing import Pairwise
from forensics.scoring.field import Field, Items, means_of
from forensics.scoring.spending import spend

Rule = Callable[[Field], bool]
"""Whether the first model of a field loses the crown to any later one."""


def naive(field: Field) -> bool:
    """Not lower in any environment and higher in one, by the means alone."""
    means = np.column_stack([means_of(environment) for environment in field.environments])
    gain = means[1:] - means[0]
    return bool(((gain >= 0).all(axis=1) & (gain > 0).any(axis=1)).any())


def one_sided(field: Field) -> bool:
    """A margin of 1.645 standard errors of the later model alone in one environment, not lower than it in the rest."""
    gains, margins = [], []
    for environment in field.environments:
        assert isinstance(environment, Items)
        mean = environment.scores.mean(axis=1)
        error = environment.scores.std(axis=1, ddof=1) / np.sqrt(environment.scores.shape[1])
        gains.append(mean[1:] - mean[0])
        margins.append(1.645 * error[1:])
    gain, margin = np.array(gains), np.array(margins)
    return bool(((gain >= margin).any(axis=0) & (gain > -margin).all(axis=0)).any())


def ours(alpha: float, *, together: bool) -> Rule:
    """The ordered front, every later model's alpha spent in one lineage or each in its own."""

    def rule(field: Field) -> bool:
        count = len(field.submissions)
        groups = [["lineage"] if together else [str(place)] for place in range(count)]
        alphas = [attempt.alpha for attempt in spend(groups, alpha)]
        pairs = Pairwise(field, alphas, worse_alpha=0.05, min_overlap=0.8)
        return len(front.run(pairs, np.arange(count), count).crowns) > 1

    return rule


def enters(alpha: float) -> Rule:
    """Whether any later model of the lineage gets onto the front at all, which is what other payment rules pay for."""

    def rule(field: Field) -> bool:
        count = len(field.submissions)
        alphas = [attempt.alpha for attempt in spend([["lineage"]] * count, alpha)]
        pairs = Pairwise(field, alphas, worse_alpha=0.05, min_overlap=0.8)
        return len(front.run(pairs, np.arange(count), count).entered) > 1

    return rule
