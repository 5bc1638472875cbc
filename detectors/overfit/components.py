"""The tests of every miner: all environments together and each alone, over all epochs or epoch by epoch.

A miner that trained on one environment of six shows little when they are pooled, and one that trained a little on all
shows little in each. So both are tested: half of the level goes to the pool, half is shared by the environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import permutation
from .arms import FRESH, Arms
from .calibrated import Judged, calibrated
from .evalues import Process, from_judged, prior_of, process
from .permutation import LIFTS, Stratum
from .report import Exposure
from .results import NOBODY, Floats, Ints, Results

FEWEST_ITEMS = 10
"""Items an arm needs before the calibrated test, which leans on means being Gaussian; the exact test needs none."""


@dataclass(frozen=True, eq=False)
class Components:
    """All tests of one look.

    Args:
        names: Environments, after the pool.
        tests: One for the pool, then one an environment (none when there is only one).
        p: Combined p-value of each miner, shape (miners,); NaN where nothing could be tested.
    """

    names: tuple[str, ...]
    tests: tuple[Judged, ...]
    p: Floats


class Field:
    """The miners of an analysis, and the tests that can be made of them.

    Args:
        results: All rows.
        arms: Their statistics.
        exposure: Which test holds.
        rng: For lots that are sampled.
    """

    def __init__(self, results: Results, arms: Arms, exposure: Exposure, rng: np.random.Generator) -> None:
        self._results, self._arms, self._exposure, self._rng = results, arms, exposure, rng
        self.judged_cells = [int(c) for c in np.flatnonzero((arms.weight > 0).any(axis=0))]
        self.environments = sorted({results.cells[c].environment for c in self.judged_cells})
        self.epochs = sorted({results.cells[c].epoch for c in self.judged_cells})
        self._strata = self._all_strata() if exposure is Exposure.RANDOMISED else {}

    def look(self) -> Components:
        """One look at all epochs together."""
        groups = self._groups(self.judged_cells)
        tests = tuple(self._test(cells)[0] for cells in groups)
        return Components(tuple(self.environments), tests, _combined([t.p for t in tests]))

    def sequence(self) -> Process:
        """E-values epoch by epoch."""
        miners, groups = len(self._results.hotkeys), 1 + len(self.environments) * (len(self.environments) > 1)
        log_e = np.zeros((len(self.epochs), miners, groups, len(LIFTS)))
        for row, epoch in enumerate(self.epochs):
            cells = [c for c in self.judged_cells if self._results.cells[c].epoch == epoch]
            for column, group in enumerate(self._groups(cells)):
                if group:
                    log_e[row, :, column] = self._test(group)[1]
        return process(log_e, prior_of(groups))

    def _groups(self, cells: Sequence[int]) -> list[list[int]]:
        """Cells of the pool, then of each environment."""
        if len(self.environments) <= 1:
            return [list(cells)]
        of = self._results.cells
        return [list(cells), *([c for c in cells if of[c].environment == name] for name in self.environments)]

    def _test(self, cells: Sequence[int]) -> tuple[Judged, Floats]:
        if self._exposure is Exposure.RANDOMISED:
            return self._exact(cells)
        judged = self._withhold(calibrated(self._arms, self._results.units, cells), cells)
        return judged, from_judged(judged)

    def _withhold(self, judged: Judged, cells: Sequence[int]) -> Judged:
        few = self._arms.count[:, :, cells].sum(axis=2).min(axis=0) < FEWEST_ITEMS
        return Judged(judged.lift, judged.scale, np.where(few, np.nan, judged.p), judged.null)

    def _exact(self, cells: Sequence[int]) -> tuple[Judged, Floats]:
        miners = len(self._results.hotkeys)
        p, log_e, draws = np.full(miners, np.nan), np.zeros((miners, len(LIFTS))), 0
        strata = [[s for c in cells if (s := self._strata.get((miner, c)))] for miner in range(miners)]
        for miner, tested in enumerate(permutation.test_all(strata, self._rng)):
            if tested is not None:
                p[miner], log_e[miner], draws = tested.p, tested.log_e, max(draws, tested.draws)
        how = f"sampled:{draws}" if draws else "full"
        lift, error = self._difference(cells)
        return Judged(
            lift, error, p, f"permutation/exposure:randomised,strata=epoch+environment+difficulty,{how}"
        ), log_e

    def _difference(self, cells: Sequence[int]) -> tuple[Floats, Floats]:
        """Weighted difference of arms and its standard error, item sampling included."""
        weight, gap = self._arms.weight[:, cells], self._arms.gap[:, cells]
        total = weight.sum(axis=1)
        share = weight / np.where(total > 0, total, 1.0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = (self._arms.raw[:, :, cells] / self._arms.count[:, :, cells]).sum(axis=0)
        used = weight > 0
        lift = (share * np.where(used, gap, 0.0)).sum(axis=1)
        error = np.sqrt((share**2 * np.where(used, variance, 0.0)).sum(axis=1))
        return np.where(total > 0, lift, np.nan), error

    def _all_strata(self) -> dict[tuple[int, int], Stratum]:
        """One stratum for every miner and cell that has both arms."""
        results = self._results
        used = np.flatnonzero(results.item_validator[results.item] == NOBODY)
        cell = results.item_cell[results.item[used]]
        key = results.miner[used] * len(results.cells) + cell
        order = np.argsort(key, kind="stable")
        bounds = np.flatnonzero(np.diff(key[order], prepend=-1))
        found = {}
        for rows in np.split(used[order], bounds[1:]):
            made = permutation.stratum(results.score[rows], results.item_exposed[results.item[rows]])
            if made is not None:
                found[int(results.miner[rows[0]]), int(results.item_cell[results.item[rows[0]]])] = made
        return found


def fresh_means(results: Results, arms: Arms) -> tuple[list[str], Floats, Floats, Floats]:
    """Environments, and each miner's fresh mean, error and count there, each (miners, environments)."""
    names = sorted({cell.environment for cell in results.cells})
    column = np.array([names.index(cell.environment) for cell in results.cells])
    count, mean = arms.count[FRESH], np.nan_to_num(arms.mean[FRESH])
    totals = [_by_column(values, column, len(names)) for values in (count, count * mean, count * arms.raw[FRESH])]
    number = np.maximum(totals[0], 1)
    return names, totals[1] / number, np.sqrt(totals[2]) / number, totals[0]


def _by_column(values: Floats, column: Ints, size: int) -> Floats:
    total = np.zeros((values.shape[0], size))
    np.add.at(total.T, column, values.T)
    return total


def _combined(p_values: Sequence[Floats]) -> Floats:
    """Half of the level for the pool, half shared by the environments, as one p-value a miner."""
    pool = p_values[0]
    if len(p_values) == 1:
        return pool
    alone = np.vstack(p_values[1:])
    tested = np.isfinite(alone).sum(axis=0)
    least = np.where(np.isfinite(alone), alone, np.inf).min(axis=0) * tested
    with np.errstate(invalid="ignore"):
        both = 2 * np.fmin(pool, np.where(tested > 0, least, np.nan))
    return np.asarray(np.minimum(both, 1.0))
