"""Is a later model better than an earlier one in an environment, worse, or is there no telling?

With items, differences are paired on the items both answered. For a model and its copy they are symmetric about zero,
so D >= z sqrt(sum d^2) / n has at most the probability for which z was chosen, whatever the scores look like and
however few there are (see ``spending.RADEMACHER``). With means only, the two errors are added as independent.

Better: by z of the attempt, and by ``min_effect``. Worse: by z of ``worse_alpha``; also where the later model did not
answer enough of what the earlier one did, for it cannot claim to be no worse there. Where the earlier one has nothing,
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .field import Environment, Field, Floats, Items, Means, means_of, shown
from .spending import quantiles

Places = NDArray[np.intp]
Bools = NDArray[np.bool_]
_Exactly = Callable[[Places, Places], Bools]
_UNRESOLVED: Final = 1 << 16
"""Pairs of which exact differences are taken at once."""
_TILE: Final = 1 << 17
_HALF: Final = 0.5**0.5


@dataclass(frozen=True)
class Difference:
    """A later model against an earlier one in one environment, as the environment counts.

    Args:
        environment: Its name.
        later: Mean of the later model over what is compared; NaN when absent.
        earlier: Mean of the earlier one.
        difference: Later minus earlier.
        margin: What the difference must reach to count as better.
        tolerance: What it may fall short without counting as worse.
        items: Common items; 0 when only means are known.
        result: ``better``, ``worse``, ``same``, ``missing`` (counts as worse) or ``not compared``.
    """

    environment: str
    later: float
    earlier: float
    difference: float
    margin: float
    tolerance: float
    items: int
    result: str


class Pairwise:
    """The tests of one field under one policy's levels.

    Args:
        field: What was measured.
        alphas: What each submission may spend on being better anywhere.
        worse_alpha: Level, in each environment, of taking a model for worse.
        min_overlap: Share of the earlier model's items that must be common.
    """

    def __init__(self, field: Field, alphas: Sequence[float], *, worse_alpha: float, min_overlap: float) -> None:
        self._compared = [environment for environment in field.environments if not environment.rule.ignore]
        count = max(1, len(self._compared))
        exact = quantiles(alphas, environments=count, symmetric=True)
        normal = quantiles(alphas, environments=count, symmetric=False)
        worse = float(quantiles([worse_alpha], environments=1, symmetric=False)[0])
        means = [environment for environment in self._compared if isinstance(environment, Means)]
        self._items = [_ItemTest(e, exact, worse, min_overlap) for e in self._compared if isinstance(e, Items)]
        self._means = _MeanTests(means, normal, worse) if means else None
        self._strengths = [_standardised(environment) for environment in self._compared]

    def strength(self, places: Places) -> Floats:
        """How strong models look; only says with whom to compare first."""
        found = np.zeros(len(places))
        for mean, centre, spread in self._strengths:
            found += np.nan_to_num((mean[places] - centre) / spread, nan=-3.0)
        return found

    def better(self, later: Places, earlier: Places) -> Bools:
        """(later, earlier): whether better by the margin in at least one environment."""
        found = np.zeros((len(later), len(earlier)), dtype=np.bool_)
        if self._means is not None:
            found |= self._means.better(later, earlier)
        for test in self._items:
            found |= test.better(later, earlier)
        return found

    def beat_all(self, later: Places, earlier: Places) -> Places:
        """Those of ``later`` that are better in at least one environment than each of ``earlier``.

        ``better`` for every pair would say the same; here whoever cannot be is left out before anybody looks closely.
        """
        if self._means is None:
            return later[self.better(later, earlier).all(axis=1)]
        by_items = np.zeros((len(later), len(earlier)), dtype=np.bool_)
        for test in self._items:
            by_items |= test.better(later, earlier)
        possible = (self._means.possibly_better(later, earlier) | by_items).all(axis=1)
        later, by_items = later[possible], by_items[possible]
        return later[self._means.better(later, earlier, known=by_items).all(axis=1)]

    def worse(self, later: Places, earlier: Places) -> Bools:
        """(later, earlier): whether worse in at least one environment."""
        found = np.zeros((len(later), len(earlier)), dtype=np.bool_)
        if self._means is not None:
            found |= self._means.worse(later, earlier)
        for test in self._items:
            found |= test.worse(later, earlier)
        return found

    def details(self, later: int, earlier: int) -> tuple[Difference, ...]:
        """Every compared environment of one pair, in numbers."""
        items = iter(self._items)
        found, mean = [], 0
        for environment in self._compared:
            if isinstance(environment, Items):
                found.append(next(items).detail(later, earlier))
            else:
                assert self._means is not None  # noqa: S101  # there is one, for there is such an environment
                found.append(self._means.detail(mean, later, earlier))
                mean += 1
        return tuple(found)


class _ItemTest:
    """One environment, item by item. Scores are centred and scaled first, so that sums of squares lose no digits."""

    def __init__(self, environment: Items, z: Floats, worse: float, min_overlap: float) -> None:
        scores = environment.scores
        self._environment, self._z, self._worse, self._overlap = environment, z, worse, min_overlap
        self._there = (~np.isnan(scores)).astype(np.float64)
        self._answered = self._there.sum(axis=1)
        known = self._there > 0
        centre = float(scores[known].mean()) if known.any() else 0.0
        spread = float(np.abs(scores[known] - centre).max()) if known.any() else 1.0
        self._scale = spread or 1.0
        self._scores = np.where(known, (scores - centre) / self._scale, 0.0)
        self._squares = self._scores**2
        self._complete = bool(known.all())
        self._effect = environment.rule.min_effect / self._scale

    def better(self, later: Places, earlier: Places) -> Bools:
        mean, error, comparable = self._differences(later, earlier)
        needed = np.maximum(self._z[later, None] * error, self._effect)
        found: Bools = comparable & (mean > 0) & (mean >= needed)
        return found

    def worse(self, later: Places, earlier: Places) -> Bools:
        mean, error, comparable = self._differences(later, earlier)
        short = ~comparable & (self._answered[earlier] > 0)
        found: Bools = short | (comparable & (mean < 0) & (-mean >= np.maximum(self._worse * error, self._effect)))
        return found

    def detail(self, later: int, earlier: int) -> Difference:
        pair = np.array([later]), np.array([earlier])
        mean, error, comparable = (float(part[0, 0]) for part in self._differences(*pair))
        common = (self._there[later] * self._there[earlier]) > 0
        scores, items = self._environment.scores, int(common.sum())
        means = [float(scores[place][common].mean()) if items else float("nan") for place in (later, earlier)]
        margin = max(float(self._z[later]) * error, self._effect)
        tolerance = max(self._worse * error, self._effect)
        if not comparable:
            result = "missing" if self._answered[earlier] else "not compared"
        else:
            result = _result(bool(self.better(*pair)[0, 0]), bool(self.worse(*pair)[0, 0]))
        return _difference(
            self._environment, means, mean * self._scale, margin * self._scale, tolerance * self._scale, items, result
        )

    def _differences(self, later: Places, earlier: Places) -> tuple[Floats, Floats, Bools]:
        """Mean difference, sqrt(sum of squared differences) / n, and whether enough items are common."""
        x, y = self._scores[later], self._scores[earlier]
        if self._complete:
            items = self._scores.shape[1]
            total = x.sum(axis=1)[:, None] - y.sum(axis=1)[None, :]
            squares = self._squares[later].sum(axis=1)[:, None] + self._squares[earlier].sum(axis=1)[None, :]
            common: Floats = np.full(total.shape, float(items))
        else:
            here, there = self._there[later], self._there[earlier]
            common = here @ there.T
            total = x @ there.T - here @ y.T
            squares = self._squares[later] @ there.T + here @ self._squares[earlier].T
        squares = squares - 2 * (x @ y.T)
        n = np.maximum(common, 1.0)
        mean = total / n
        error = np.sqrt(np.maximum(squares, 0.0)) / n
        error = np.maximum(error, np.abs(mean) / np.sqrt(n))  # Cauchy-Schwarz; guards against lost digits
        answered = self._answered[earlier][None, :]
        return mean, error, (common > 0) & (common >= self._overlap * answered)


class _MeanTests:
    """All environments of which only means are known, at once.

    The exact error of a difference lies between (s + t) / sqrt 2 and s + t, so most pairs are settled by comparing
    x - z s with y + z t once for each environment. These bounds are kept in float32, rounded to the safe side; what
    lies between them is computed exactly.
    """

    def __init__(self, environments: Sequence[Means], z: Floats, worse: float) -> None:
        self._environments, self._z, self._worse = environments, z, worse
        self._mean = np.column_stack([e.mean for e in environments])
        self._variance = np.column_stack([e.variance for e in environments])
        self._effect = np.array([e.rule.min_effect for e in environments])
        self._error = np.sqrt(self._variance)
        # without an error a mean proves nothing: never better, and worse as soon as it is lower
        self._error[np.isnan(self._error)] = np.inf
        with np.errstate(invalid="ignore"):
            at_best = self._mean - (self._z * _HALF)[:, None] * self._error
        self._low_at_best = _rounded(at_best, np.inf)

    def better(self, later: Places, earlier: Places, *, known: Bools | None = None) -> Bools:
        """Whether better anywhere; pairs that are ``known`` to be are not looked at."""
        z = self._z[later]
        with np.errstate(invalid="ignore"):
            low = self._mean[later] - z[:, None] * self._error[later] - self._effect
        high = self._high(earlier, float(z.max(initial=0.0)), np.inf)
        found = _any_at_least(_rounded(low, -np.inf), high)
        if known is not None:
            found |= known
        return self._settle(found, later, earlier, self._exactly_better)

    def possibly_better(self, later: Places, earlier: Places) -> Bools:
        """``better``, or true without having looked closely: what is false here is false there."""
        high = self._high(earlier, float(self._z[later].min(initial=np.inf)) * _HALF, -np.inf)
        return _any_at_least(self._low_at_best[later], high)

    def worse(self, later: Places, earlier: Places) -> Bools:
        mean, absent = self._mean[later], np.isnan(self._mean[later])
        reach = np.where(absent, -np.inf, mean) + self._worse * self._down(later) + self._effect
        floor = self._mean[earlier] - self._worse * self._down(earlier)
        found = np.ascontiguousarray(_any_at_least(_rounded(floor, -np.inf), _rounded(reach, np.inf)).T)
        return self._settle(found, later, earlier, self._exactly_worse)

    def _down(self, places: Places) -> Floats:
        error = self._error[places]
        return np.where(np.isinf(error), 0.0, error)

    def _high(self, earlier: Places, z: float, toward: float) -> NDArray[np.float32]:
        with np.errstate(invalid="ignore"):
            return _rounded(self._mean[earlier] + z * self._error[earlier], toward)

    def detail(self, number: int, later: int, earlier: int) -> Difference:
        environment = self._environments[number]
        pair = np.array([later]), np.array([earlier])
        means = [float(self._mean[place, number]) for place in (later, earlier)]
        up = float(np.hypot(self._error[later, number], self._error[earlier, number]))
        down = float(np.hypot(*(self._down(place)[0, number] for place in pair)))
        effect = float(self._effect[number])
        margin, tolerance = max(float(self._z[later]) * up, effect), max(self._worse * down, effect)
        if np.isnan(means[1]):
            result = "not compared"
        elif np.isnan(means[0]):
            result = "missing"
        else:
            better, worse = (part[0, number] for part in (self._exactly_better(*pair), self._exactly_worse(*pair)))
            result = _result(bool(better), bool(worse))
        return _difference(environment, means, means[0] - means[1], margin, tolerance, 0, result)

    def _settle(self, found: Bools, later: Places, earlier: Places, exactly: _Exactly) -> Bools:
        """Decide the pairs that one comparison left open."""
        open_ = np.flatnonzero(~found)
        flat = found.reshape(-1)
        for start in range(0, len(open_), _UNRESOLVED):
            part = open_[start : start + _UNRESOLVED]
            row, column = np.divmod(part, len(earlier))
            flat[part] = exactly(later[row], earlier[column]).any(axis=1)
        return found

    def _exactly_better(self, later: Places, earlier: Places) -> Bools:
        gain = self._mean[later] - self._mean[earlier]
        needed = self._z[later, None] ** 2 * (self._error[later] ** 2 + self._error[earlier] ** 2)
        found: Bools = (gain > 0) & (gain >= self._effect) & (gain * gain >= needed)
        return found

    def _exactly_worse(self, later: Places, earlier: Places) -> Bools:
        loss = self._mean[earlier] - self._mean[later]
        needed = self._worse**2 * (self._down(later) ** 2 + self._down(earlier) ** 2)
        short = np.isnan(self._mean[later]) & ~np.isnan(self._mean[earlier])
        found: Bools = short | ((loss > 0) & (loss >= self._effect) & (loss * loss >= needed))
        return found


def _any_at_least(left: NDArray[np.float32], right: NDArray[np.float32]) -> Bools:
    """(left, right): whether left is at least right in any column; absent is never. In tiles that fit into a cache."""
    found = np.zeros((len(left), len(right)), dtype=np.bool_)
    columns = np.ascontiguousarray(right.T)
    height = max(1, _TILE // max(1, len(right)))
    one = np.empty((height, len(right)), dtype=np.bool_)
    for start in range(0, len(left), height):
        tile, rows = found[start : start + height], left[start : start + height]
        part = one[: len(rows)]
        for number, column in enumerate(columns):
            np.greater_equal(rows[:, number, None], column, out=part)
            np.logical_or(tile, part, out=tile)
    return found


def _rounded(values: Floats, toward: float) -> NDArray[np.float32]:
    """As float32, not past the true value in the unsafe direction."""
    return np.nextafter(values.astype(np.float32), np.float32(toward))


def _standardised(environment: Environment) -> tuple[Floats, float, float]:
    mean = means_of(environment)
    known = mean[~np.isnan(mean)]
    if not len(known):
        return mean, 0.0, 1.0
    return mean, float(known.mean()), float(known.std()) or 1.0


def _result(better: bool, worse: bool) -> str:
    if better:
        return "better"
    return "worse" if worse else "same"


def _difference(
    environment: Environment,
    means: Sequence[float],
    difference: float,
    margin: float,
    tolerance: float,
    items: int,
    result: str,
) -> Difference:
    later, earlier = (shown(environment, mean) for mean in means)
    return Difference(
        environment.name, later, earlier, shown(environment, difference), margin, tolerance, items, result
    )
