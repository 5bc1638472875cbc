"""From the front to weights: a rule for whom to pay, then multipliers, then what becomes of what they withhold.

Only models that entered the front and survive are paid, so a copy, which is held, has nothing to gain under any rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from .field import Environment, Floats, means_of
from .policy import Policy


@dataclass(frozen=True)
class Payment:
    """Who gets what; everything adds up to 1.

    Args:
        earned: By place, before multipliers; adds up to 1 when anybody is paid.
        paid: By place, after multipliers and sharing.
        burned: What nobody gets.
    """

    earned: Mapping[int, float]
    paid: Mapping[int, float]
    burned: float


def pay(ranked: Sequence[int], merit: Floats, multipliers: Sequence[float], policy: Policy) -> Payment:
    """Pay the ranked places.

    Args:
        ranked: The crown, then the other survivors in commit order.
        merit: (places,) score in [0, 1], for ``proportional``.
        multipliers: (places,) in [0, 1].
        policy: The rule, and what becomes of what is withheld.
    """
    earned = dict(zip(ranked[: policy.places], _shares(ranked[: policy.places], merit, policy), strict=False))
    kept = {place: share * multipliers[place] for place, share in earned.items()}
    withheld = fsum(share - kept[place] for place, share in earned.items())
    clean = [place for place, share in earned.items() if multipliers[place] == 1 and share > 0]
    if policy.withheld == "share" and clean and withheld > 0:
        base = fsum(earned[place] for place in clean)
        kept |= {place: kept[place] + withheld * earned[place] / base for place in clean}
    return Payment(earned, kept, max(0.0, 1.0 - fsum(kept.values())))


def merits(environments: Sequence[Environment], count: int) -> Floats:
    """Mean over environments of each model's score between the environment's bounds, in [0, 1]; absent is 0.

    Bounds are those that the policy declares, [0, 1] where all means lie in it, else the lowest and highest mean.
    """
    parts = [_between(environment) for environment in environments if not environment.rule.ignore]
    return np.asarray(np.mean(parts, axis=0)) if parts else np.zeros(count)


def _shares(ranked: Sequence[int], merit: Floats, policy: Policy) -> list[float]:
    if not ranked:
        return []
    if policy.rule == "winner-takes-all":
        raw = [1.0] + [0.0] * (len(ranked) - 1)
    elif policy.rule == "decayed":
        raw = [policy.decay**place for place in range(len(ranked))]
    else:
        raw = [float(merit[place]) ** (1 / policy.temperature) for place in ranked]
    total = fsum(raw)
    return [share / total for share in raw] if total > 0 else [1 / len(ranked)] * len(ranked)


def _between(environment: Environment) -> Floats:
    mean = means_of(environment)
    known = mean[~np.isnan(mean)]
    if not len(known):
        return np.zeros(len(mean))
    low, high = _bounds(environment, known)
    if high <= low:
        return np.where(np.isnan(mean), 0.0, 1.0)
    return np.nan_to_num(np.clip((mean - low) / (high - low), 0, 1))


def _bounds(environment: Environment, known: Floats) -> tuple[float, float]:
    turned = environment.rule.lower_is_better
    if environment.rule.range is not None:
        low, high = environment.rule.range
        return (-high, -low) if turned else (low, high)
    if not turned and known.min() >= 0 and known.max() <= 1:
        return 0.0, 1.0
    return float(known.min()), float(known.max())
