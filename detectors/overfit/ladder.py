"""Public feedback that cannot be climbed: the Ladder of Blum and Hardt (ICML 2015).

Whoever may submit often and sees exact scores learns the hidden items through them. The Ladder publishes a new score
only when it beats the best published one by a step, and rounded to that step; else it repeats the old one. Its error
after k submissions on n items stays near (log(k n) / n)^(1/3), where exact feedback lets it grow with sqrt(k / n).
Best scores belong to a unit (a cluster or lineage), else a miner with ten hotkeys climbs ten ladders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ..errors import MalformedFacts


@dataclass(frozen=True)
class Ladder:
    """What has been published so far; immutable, so that it can be stored and replayed.

    Args:
        step: Smallest improvement that is published, and the grid it is rounded to.
        best: Best published score of each unit.
    """

    step: Fraction
    best: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise MalformedFacts("not a step", where="Ladder.step", got=str(self.step), expected="above 0")

    def publish(self, unit: str, score: Fraction) -> tuple[Fraction, Ladder]:
        """The score to show for a submission of ``unit``, and the ladder after it."""
        before = self.best.get(unit)
        if before is not None and score < before + self.step:
            return before, self
        shown = self._rounded(score)
        return shown, Ladder(self.step, {**self.best, unit: shown})

    def _rounded(self, score: Fraction) -> Fraction:
        """The nearest multiple of the step, halves down: never more than half a step above the truth."""
        return self.step * -((Fraction(1, 2) - score / self.step) // 1)


def step_for(*, items: int, submissions: int) -> Fraction:
    """The step that balances both errors, as a multiple of 1/1000: (ln(k n) / n)^(1/3)."""
    if items < 1 or submissions < 1:
        raise MalformedFacts(
            "nothing to balance", where="step_for", got=f"{items}, {submissions}", expected="1 or more"
        )
    # (bit length) * ln 2 is ln(k n) within one bit, which is finer than the constant in the theorem.
    log = Fraction((items * submissions).bit_length() * 693_147, 1_000_000)
    cube = log / items * 1000**3
    root = round(float(cube) ** (1 / 3))
    return Fraction(max(root, 1), 1000)
