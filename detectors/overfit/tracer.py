"""Which validator leaked: every validator holds a few items that nobody else received.

The items were given out by lot, so under the null that validator v told nobody, v's tracers are a random subset of all
tracers of their cell, and no miner does better on them than on the others'. The lot is of items, not of answers: a
set of easy items makes every miner look informed at once. So the test of v draws *items* again and adds up over units
the log likelihood that a unit was told. Validators are tested with Holm's correction, in steps: the tracers of one
that is named leave the reference of the rest. Then each unit that was told is named by an exact conditional binomial
test (Fisher) against the tracers of validators that are not named, again with Holm.

A validator that passes on only what all received leaves no trace here; neither does one without tracers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..multiplicity import holm
from . import permutation
from .results import NOBODY, Bools, Floats, Ints, Results

DRAWS: Final = 4_999
"""Fewest lots drawn again; more where many validators or a low level ask for smaller p-values."""
CHUNK: Final = 1_000
SHIFTS: Final = (1.0, 2.0, 4.0)
"""Excess of an informed unit that the likelihood bets on, in standard errors."""
FEW: Final = 0.05
"""Share of units expected to have been told, where nobody is suspected."""
HALF: Final = 0.5
"""The same among suspects."""


@dataclass(frozen=True)
class Told:
    """A miner that did better on a named validator's tracers.

    Args:
        hotkey: The miner.
        lift: Its mean on these tracers less its mean on the others.
        p: Exact p-value of the pair.
        adjusted: After Holm over all miners tested for this validator.
        named: Whether ``adjusted`` is at most the level.
    """

    hotkey: str
    lift: float
    p: float
    adjusted: float
    named: bool


@dataclass(frozen=True)
class Traced:
    """What the tracers of one validator say.

    Args:
        validator: Its name.
        items: Number of its tracers.
        lift: Excess of suspects (of all units where there are none) on them.
        p: p-value of the lot.
        adjusted: After Holm.
        log_likelihood_ratio: Natural log of P(scores | some were told) / P(scores | nobody), for all units.
        named: Whether it leaked, at the level.
        told: Miners, most informed first; empty where it is not named.
    """

    validator: str
    items: int
    lift: float
    p: float
    adjusted: float
    log_likelihood_ratio: float
    named: bool
    told: tuple[Told, ...] = ()


@dataclass(frozen=True, eq=False)
class _Board:
    """Scores of units on tracers, difficulty removed: shape (units, items), 0 where there is none."""

    residual: Floats
    answered: Floats
    cell: Ints
    validator: Ints
    suspects: Bools


def trace(
    results: Results, *, suspects: Collection[int] = (), level: float, rng: np.random.Generator
) -> tuple[Traced, ...]:
    """Test every validator that has tracers; empty where fewer than two have.

    Args:
        results: Rows, tracers among them.
        suspects: Units that were flagged by other items.
        level: Chance of naming any honest validator.
        rng: For the lots that are drawn again.
    """
    if len(results.validators) < 2:
        return ()
    board = _board(results, suspects)
    open_ = list(range(len(results.validators)))
    named: list[int] = []
    outcome: dict[int, tuple[float, float, float]] = {}
    draws = max(DRAWS, math.ceil(8 * len(open_) / level))
    while len(open_) > 1:
        step = _Round(board, tuple(named), draws, rng)
        tests = {v: step.test(v) for v in open_}
        adjusted = holm([tests[v][0] for v in open_])
        for v, value in zip(open_, adjusted, strict=True):
            outcome[v] = (*tests[v], float(value))
        worst = min(open_, key=lambda v: tests[v][0])
        if outcome[worst][2] > level:
            break
        named.append(worst)
        open_.remove(worst)
    return tuple(
        Traced(
            validator=results.validators[v],
            items=int((board.validator == v).sum()),
            lift=_lift(board, v, named),
            p=p,
            adjusted=adjusted,
            log_likelihood_ratio=ratio,
            named=v in named,
            told=_told(results, v, named, level, rng) if v in named else (),
        )
        for v, (p, ratio, adjusted) in sorted(outcome.items())
    )


def _board(results: Results, suspects: Collection[int]) -> _Board:
    tracers = np.flatnonzero(results.item_validator != NOBODY)
    column = np.full(len(results.items), -1, dtype=np.int64)
    column[tracers] = np.arange(tracers.size)
    rows = column[results.item] >= 0
    unit, place = results.units[results.miner[rows]], column[results.item[rows]]
    shape = (len(results.unit_names), tracers.size)
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (unit, place), results.score[rows])
    np.add.at(count, (unit, place), 1.0)
    answered = (count > 0).astype(float)
    mean = total / np.maximum(count, 1)
    chosen = np.zeros(shape[0], dtype=bool)
    chosen[list(suspects)] = True
    judges = answered * ~chosen[:, None] if (~chosen).sum() >= 2 else answered
    difficulty = (mean * judges).sum(axis=0) / np.maximum(judges.sum(axis=0), 1)
    residual = (mean - difficulty) * answered
    return _Board(residual, answered, results.item_cell[tracers], results.item_validator[tracers], chosen)


@dataclass
class _Round:
    """The tests of one step: validators that hold equally many items of each cell share their lots.

    Args:
        board: All tracers.
        named: Validators whose tracers are left out.
        draws: Lots drawn again.
        rng: For these.
    """

    board: _Board
    named: Sequence[int]
    draws: int
    rng: np.random.Generator
    nulls: dict[tuple[int, ...], Floats] = field(default_factory=dict)

    def test(self, validator: int) -> tuple[float, float]:
        """p-value of the lot, and the log likelihood ratio that some units were told."""
        kept = ~np.isin(self.board.validator, self.named)
        residual, answered = self.board.residual[:, kept], self.board.answered[:, kept]
        cell, mine = self.board.cell[kept], (self.board.validator[kept] == validator).astype(float)
        scale, suspects = _scale(residual, answered), self.board.suspects
        seen = _statistics(residual, answered, mine[:, None], scale, suspects)
        held = tuple(int(mine[cell == c].sum()) for c in np.unique(cell))
        if held not in self.nulls:
            again = []
            for start in range(0, self.draws, CHUNK):
                lots = _draw(cell, mine, min(CHUNK, self.draws - start), self.rng)
                again.append(_statistics(residual, answered, lots, scale, suspects))
            self.nulls[held] = np.hstack(again)
        p = ((self.nulls[held] >= seen - 1e-9).sum(axis=1) + 1) / (self.draws + 1)
        if not suspects.any():
            return float(p[0]), float(seen[0, 0])
        return float(min(1.0, 2 * p.min())), float(seen.max())


def _draw(cell: Ints, mine: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Lots of the same number of items per cell, shape (items, size)."""
    lots = np.zeros((cell.size, size))
    for c in np.unique(cell[mine > 0]):
        places = np.flatnonzero(cell == c)
        number = int(mine[places].sum())
        order = rng.random((places.size, size)).argsort(axis=0)[:number]
        lots[places[order], np.arange(size)] = 1.0
    return lots


def _scale(residual: Floats, answered: Floats) -> Floats:
    """Standard deviation of each unit's residuals, with two pooled observations, shape (units, 1)."""
    count = answered.sum(axis=1)
    squares = (residual**2).sum(axis=1)
    pooled = squares.sum() / max(count.sum(), 1.0)
    return np.asarray(np.sqrt(np.maximum((squares + 2 * pooled) / (count + 2), 1e-12))[:, None])


def _statistics(residual: Floats, answered: Floats, lots: Floats, scale: Floats, suspects: Bools) -> Floats:
    """Log likelihood ratios of all units and of suspects, shape (2, lots)."""
    number = answered @ lots
    others = answered.sum(axis=1, keepdims=True) - number
    inside = residual @ lots
    outside = residual.sum(axis=1, keepdims=True) - inside
    usable = (number > 0) & (others > 0)
    excess = inside / np.maximum(number, 1) - outside / np.maximum(others, 1)
    error = scale * np.sqrt(1 / np.maximum(number, 1) + 1 / np.maximum(others, 1))
    z = np.where(usable, excess / error, 0.0)
    every = _mixture(z, usable, FEW).sum(axis=0)
    return np.vstack([every, _mixture(z[suspects], usable[suspects], HALF).sum(axis=0)])


def _mixture(z: Floats, usable: Bools, share: float) -> Floats:
    ratios = [math.log(share / len(SHIFTS)) + shift * z - shift**2 / 2 for shift in SHIFTS]
    return np.where(usable, np.logaddexp.reduce([np.full_like(z, math.log1p(-share)), *ratios]), 0.0)


def _lift(board: _Board, validator: int, named: Sequence[int]) -> float:
    rows = board.suspects if board.suspects.any() else np.ones_like(board.suspects)
    mine = board.validator == validator
    others = ~mine & ~np.isin(board.validator, named)
    means = []
    for part in (mine, others):
        total = board.answered[rows][:, part].sum()
        means.append(board.residual[rows][:, part].sum() / max(total, 1.0))
    return float(means[0] - means[1])


def _told(
    results: Results, validator: int, named: Sequence[int], level: float, rng: np.random.Generator
) -> tuple[Told, ...]:
    held = results.item_validator[results.item]
    mine = held == validator
    kept = mine | ((held != NOBODY) & ~np.isin(held, named))
    pairs = []
    for miner in np.unique(results.miner[kept & mine]):
        rows = kept & (results.miner == miner)
        tested = _pair(results, rows, mine, rng)
        if tested is not None:
            lift = results.score[rows & mine].mean() - results.score[rows & ~mine].mean()
            pairs.append((int(miner), float(lift), tested.p))
    adjusted = holm([p for *_, p in pairs])
    told = [
        Told(results.hotkeys[miner], lift, p, float(value), bool(value <= level))
        for (miner, lift, p), value in zip(pairs, adjusted, strict=True)
    ]
    return tuple(sorted(told, key=lambda t: (t.p, t.hotkey)))


def _pair(results: Results, rows: Bools, mine: Bools, rng: np.random.Generator) -> permutation.Tested | None:
    cell = results.item_cell[results.item]
    found = [
        permutation.stratum(results.score[rows & (cell == c)], mine[rows & (cell == c)]) for c in np.unique(cell[rows])
    ]
    return permutation.test([s for s in found if s is not None], rng)
