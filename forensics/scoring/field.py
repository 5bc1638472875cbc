"""The field: submissions in commit order, and what each environment measured of them.

Scores are turned so that higher is better when they come in, and back when they are shown. A submission that an
environment did not measure is absent there, which is not the same as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .policy import EnvironmentRule

MAX_SUBMISSIONS: Final = 20_000
MAX_ENVIRONMENTS: Final = 64
MAX_CELLS: Final = 1 << 28
"""Models times items of one environment: 2 GiB of float64."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Submission:
    """Who claims what since when.

    Args:
        hotkey: SS58 at prefix 42 (or a name, in a rehearsal).
        revision: The model.
        block: Block that binds it.
        extrinsic: Where in that block.
        uid: Seat, for setting weights only.
        excluded: Why it does not compete; empty when it does.
    """

    hotkey: str
    revision: str
    block: int
    extrinsic: int
    uid: int | None = None
    excluded: str = ""

    @property
    def order(self) -> tuple[int, int, str, str]:
        """Strict commit order: block, extrinsic index, hotkey."""
        return self.block, self.extrinsic, self.hotkey, self.revision


@dataclass(frozen=True)
class Items:
    """Scores item by item.

    Args:
        name: Environment.
        scores: (submissions, items) float64, NaN where not measured; higher is better.
        rule: How the policy reads it.
    """

    name: str
    scores: Floats
    rule: EnvironmentRule


@dataclass(frozen=True)
class Means:
    """Scores of which only the mean is known.

    Args:
        name: Environment.
        mean: (submissions,), NaN where not measured; higher is better.
        variance: (submissions,) squared standard error of each mean; NaN where it is not known.
        count: (submissions,) samples behind each mean; 0 where not said.
        rule: How the policy reads it.
    """

    name: str
    mean: Floats
    variance: Floats
    count: Floats
    rule: EnvironmentRule


Environment = Items | Means


@dataclass(frozen=True)
class Field:
    """Everything that competes.

    Args:
        submissions: In commit order.
        environments: By name; rows are submissions.
        notes: What whoever reads the result should know about the input.
    """

    submissions: tuple[Submission, ...]
    environments: tuple[Environment, ...]
    notes: tuple[str, ...] = ()

    def excluding(self, reasons: dict[int, str]) -> Field:
        """The same with some submissions out of the competition."""
        return replace(
            self,
            submissions=tuple(
                replace(s, excluded=s.excluded or reasons.get(i, "")) for i, s in enumerate(self.submissions)
            ),
        )


def in_order(submissions: Sequence[Submission]) -> NDArray[np.intp]:
    """Where each place of the commit order stands in ``submissions``.

    Raises:
        BadInput: Too many.
    """
    if len(submissions) > MAX_SUBMISSIONS:
        raise BadInput("too many submissions", got=len(submissions), expected=f"at most {MAX_SUBMISSIONS}")
    return np.array(sorted(range(len(submissions)), key=lambda i: submissions[i].order), dtype=np.intp)


def means_of(environment: Environment) -> Floats:
    """Mean score of each submission, higher is better; NaN where there is none."""
    if isinstance(environment, Means):
        return environment.mean
    counts = np.count_nonzero(~np.isnan(environment.scores), axis=1)
    totals = np.nansum(environment.scores, axis=1)
    found: Floats = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return found


def counts_of(environment: Environment) -> Floats:
    """How many samples are behind each mean."""
    if isinstance(environment, Means):
        return environment.count
    found: Floats = np.count_nonzero(~np.isnan(environment.scores), axis=1).astype(np.float64)
    return found


def shown(environment: Environment, value: float) -> float:
    """A score or difference as the environment counts it."""
    return -value if environment.rule.lower_is_better else value


def bounded_variance(mean: Floats, count: Floats, low: float, high: float) -> Floats:
    """Squared standard error of a mean of ``count`` scores in [low, high], at most.

    Bhatia and Davis (2000): the variance of anything within bounds is at most (high - mean)(mean - low). Four
    samples, two at each bound, are added (Agresti and Coull 1998), so that a mean at a bound is not taken for certain.
    """
    pulled = (mean * count + 2 * (low + high)) / (count + 4)
    return (high - pulled) * (pulled - low) / (count + 4)
