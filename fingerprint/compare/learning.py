"""How much learning a set of changes shows: the mean coherence of what is left, against the tails of honest changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.architecture.interface import Role
from fingerprint.compare.calibration import Calibration
from fingerprint.compare.evidence import SlotChange


@dataclass(frozen=True)
class Learned:
    """How much learning the remaining changes show, over all channels they were measured by.

    Attributes:
        score: Log of the mean coherence z over changed matrices, floored at chance; the largest channel's.
        accusation: Probability that a learned change shows as little coherence; the largest channel's.
        certain: Whether some channel shows at least the least coherence of any honest change in calibration.
        matrices: Number of changed matrices it rests on.
        fraction: Fraction of changed matrices with coherence beyond any drawn change.
        effective: Median number of entries that carry a matrix's change.
    """

    score: float
    accusation: float
    certain: bool
    matrices: int
    fraction: float
    effective: float


def learned(changes: Sequence[SlotChange], calibration: Calibration, *, exact: bool = True) -> Learned:
    """Aggregate coherence over matrices that still differ beyond an exact zero, channel by channel.

    Args:
        changes: Matched matrices.
        calibration: Tails by channel.
        exact: Whether they lie in the reference's own gauge.
    """
    live = telling(changes)
    if not live:
        return Learned(0.0, 1.0, False, 0, 0.0, 0.0)
    score, accusation, certain = -math.inf, 0.0, False
    for channel in sorted({c.channel for c in live}):
        members = [c for c in live if c.channel == channel]
        here, tail = channel_score(members, exact=exact), calibration.tail(channel)
        score, accusation = max(score, here), max(accusation, tail.below(here))
        chance = DRAWN_STOUFFER / math.sqrt(len(members)) if exact else DRAWN_UNDONE
        certain |= here >= tail.least and here > math.log(chance)
    cut = calibration.thresholds["coherent"]
    return Learned(
        score=score,
        accusation=accusation,
        certain=certain,
        matrices=len(live),
        fraction=float(np.mean([c.coherence.z > cut for c in live])),
        effective=float(np.median([c.coherence.effective for c in live])),
    )


NEGLIGIBLE = 1e-5
"""Relative size of a change below any training step that bf16, or float32 at a usual rate, can record."""

TABLE_MATTERS = 3.0
"""Vocabulary tables are left out unless they changed this much more than the other matrices: many of their rows are
near-copies of one another (tokens hardly met in training), and these round alike without having learned anything."""


def telling(changes: Sequence[SlotChange]) -> list[SlotChange]:
    """The changes that can tell drawn from learned: more than nothing, and no vocabulary tables beside matrices."""
    live = [c for c in changes if c.residual > NEGLIGIBLE and c.coherence.effective > 0.0]
    inner = [c for c in live if c.slot.role not in TABLES]
    if len(inner) < TABLES_APART:
        return live
    usual = float(np.median([c.residual for c in inner]))
    return [c for c in live if c.slot.role not in TABLES or c.residual > TABLE_MATTERS * usual]


def channel_score(changes: Sequence[SlotChange], *, exact: bool = True) -> float:
    """Log of the mean coherence z of changes measured by one channel, with a floor where z is no more than chance.

    Every matrix of a drawn change has a standard normal z of its own, so the mean of n has a deviation of 1 / sqrt(n):
    the more matrices, the lower the floor. Where a gauge was undone, the most coherent few are left out (see
    ``STRAY_UNDONE``).
    """
    z = np.sort([c.coherence.z for c in changes])
    kept = z if exact else z[: max(1, z.size - int(STRAY_UNDONE * z.size))]
    return math.log(max(float(kept.mean()), CHANCE / math.sqrt(kept.size)))


CHANCE = 1.0
"""Combined z (mean times sqrt(matrices)) that chance alone gives; below it all scores are equal."""

TABLES_APART = 4
"""Other matrices that must have changed for vocabulary tables to be left out."""

TABLES = (Role.EMBED, Role.HEAD)


DRAWN_STOUFFER = 4.0
"""Largest mean z times sqrt(matrices) of a drawn change in the reference's own gauge, where it is standard normal. An
honest light update that was then quantised or pruned starts at 10 (calibration families)."""

DRAWN_UNDONE = 3.5
"""Largest mean z of a drawn change after a gauge was undone: what fitted transforms leave is a little coherent."""

STRAY_UNDONE = 0.15
"""Share of matrices that may look coherent after a change of gauge was undone: factors near a power of two round in
patterns. In the reference's own gauge not one may, or training of a single layer could hide under noise."""


def total(changes: Sequence[SlotChange]) -> float:
    """Relative size of what is left over all matrices: root of summed energies, each weighted by its parameters."""
    energy = sum(c.numel * c.residual**2 for c in changes)
    count = sum(c.numel for c in changes)
    return math.sqrt(energy / count) if count else 0.0
