"""Which validator leaked: every validator holds a few items that nobody else received.

The items were given out by lot, so under the null that validator v told nobody, v's tracers are a random subset of all
tracers of their cell, and no miner does better on them than on the others'. The lot is of items, not of answers: a
set of easy items makes every miner look informed at once. So the test of v draws *items* again. Its statistic is the
log likelihood ratio (``known``) that a share of the units was told and knows a share of v's items, once over suspects
and once over all units; four fifths of the level go to the suspects. Validators are tested with Holm's correction, in
steps: the tracers of one that is named leave the reference of the rest. Then each unit that was told is named by an
exact conditional binomial test (Fisher) against the tracers of validators that are not named, again with Holm.

A validator that passes on only what all received leaves no trace here; neither does one without tracers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..multiplicity import holm
from . import known, permutation
from .results import NOBODY, Bools, Floats, Ints, Results

DRAWS: Final = 4_999
"""Fewest lots drawn again; more where many validators or a low level ask for smaller p-values."""
CHUNK: Final = 1_000
TOLD_OF_ALL: Final = (0.01, 0.05, 0.2)
"""Shares of all units that the likelihood bets were told."""
TOLD_OF_SUSPECTS: Final = (0.2, 0.5, 0.9)
"""The same among suspects."""
SUSPECTS_PART: Final = 0.8
"""Part of the level that goes to the test of suspects, where there are any; the rest to that of all units."""
_MOST: Final = 500.0  # a unit's log ratio beyond which exp would overflow


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
    """What units did on tracers.

    Args:
        residual: Score less the item's mean over units that are not suspected; 0 where there is none, (units, items).
        answered: 1 where there is a score, (units, items).
        ratios: Log likelihood ratios that the item was known, for each of ``known.SHARES``, (units, items).
        cell: Cell of each tracer.
        validator: Its holder.
        suspects: Shape (units,).
    """

    residual: Floats
    answered: Floats
    ratios: tuple[Floats, ...]
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
    reached = 0.0  # an adjusted p-value is never below that of a validator named before
    while len(open_) > 1:
        step = _Round(board, tuple(named), draws, rng)
        tests = {v: step.test(v) for v in open_}
        adjusted = holm([tests[v][0] for v in open_])
        for v, value in zip(open_, adjusted, strict=True):
            outcome[v] = (*tests[v], max(reached, float(value)))
        worst = min(open_, key=lambda v: tests[v][0])
        reached = outcome[worst][2]
        if reached > level:
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
    chosen = np.zeros(len(results.unit_names), dtype=bool)
    chosen[list(suspects)] = True
    judges = ~chosen if (~chosen).sum() >= 2 else np.ones_like(chosen)
    shape = (chosen.size, tracers.size)
    residual, answered = np.zeros(shape), np.zeros(shape)
    ratios = [np.zeros(shape) for _ in known.SHARES]
    for cell in np.unique(results.item_cell[tracers]):
        columns = np.flatnonzero(results.item_cell[tracers] == cell)
        score, scaled, there = _fresh(results, int(cell), tracers[columns])
        mine = there[:, : columns.size]
        voting = mine * judges[:, None]
        mean = (score * voting).sum(axis=0) / np.maximum(voting.sum(axis=0), 1)
        residual[:, columns], answered[:, columns] = (score - mean) * mine, mine
        chance = known.chances(scaled, there, judges)[:, : columns.size]
        for ratio, share in zip(ratios, known.SHARES, strict=True):
            ratio[:, columns] = known.log_ratios(scaled[:, : columns.size], chance, share) * mine
    return _Board(
        residual, answered, tuple(ratios), results.item_cell[tracers], results.item_validator[tracers], chosen
    )


def _fresh(results: Results, cell: int, tracers: Ints) -> tuple[Floats, Floats, Floats]:
    """Scores of units on a cell's fresh items, the given tracers first.

    Returns:
        Mean scores on tracers, (units, tracers); the same in [0, 1] on all fresh items, and 1 where there is one, both
        (units, items).
    """
    fresh = (results.item_cell == cell) & ~results.item_exposed
    fresh[tracers] = False
    items = np.concatenate([tracers, np.flatnonzero(fresh)])
    column = np.full(len(results.items), -1, dtype=np.int64)
    column[items] = np.arange(items.size)
    rows = np.flatnonzero(column[results.item] >= 0)
    shape = (len(results.unit_names), items.size)
    flat = results.units[results.miner[rows]] * shape[1] + column[results.item[rows]]
    count = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(float)

    def means(score: Floats) -> Floats:
        return np.asarray(np.bincount(flat, weights=score, minlength=count.size).reshape(shape) / np.maximum(count, 1))

    score = results.score[rows]
    return means(score)[:, : tracers.size], means(known.unit_scale(score)), (count > 0).astype(float)


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
        board = self.board
        kept = ~np.isin(board.validator, self.named)
        ratios, cell = [ratio[:, kept] for ratio in board.ratios], board.cell[kept]
        mine = (board.validator[kept] == validator).astype(float)
        seen = _statistics(ratios, mine[:, None], board.suspects)
        held = tuple(int(mine[cell == c].sum()) for c in np.unique(cell))
        if held not in self.nulls:
            again = []
            for start in range(0, self.draws, CHUNK):
                lots = _draw(cell, mine, min(CHUNK, self.draws - start), self.rng)
                again.append(_statistics(ratios, lots, board.suspects))
            self.nulls[held] = np.hstack(again)
        p = ((self.nulls[held] >= seen - 1e-9).sum(axis=1) + 1) / (self.draws + 1)
        if not board.suspects.any():
            return float(p[0]), float(seen[0, 0])
        return float(min(1.0, p[0] / (1 - SUSPECTS_PART), p[1] / SUSPECTS_PART)), float(seen.max())


def _draw(cell: Ints, mine: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Lots of the same number of items per cell, shape (items, size)."""
    lots = np.zeros((cell.size, size))
    for c in np.unique(cell[mine > 0]):
        places = np.flatnonzero(cell == c)
        number = int(mine[places].sum())
        order = rng.random((size, places.size), dtype=np.float32).argpartition(number - 1, axis=1)[:, :number]
        lots[places[order], np.arange(size)[:, None]] = 1.0
    return lots


def _statistics(ratios: Sequence[Floats], lots: Floats, suspects: Bools) -> Floats:
    """Log likelihood ratios of all units and of suspects, shape (2, lots)."""
    sums = [ratio @ lots for ratio in ratios]
    return np.vstack([_mixture(sums, TOLD_OF_ALL), _mixture([total[suspects] for total in sums], TOLD_OF_SUSPECTS)])


def _mixture(sums: Sequence[Floats], shares: Sequence[float]) -> Floats:
    """Mean likelihood ratio over what is known and who was told, its natural log, shape (lots,)."""
    found = []
    for total in sums:
        ratio = np.exp(np.minimum(total, _MOST))
        found += [np.log(1 - told + told * ratio).sum(axis=0) for told in shares]
    return np.asarray(np.logaddexp.reduce(found) - math.log(len(found)))


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
    rows = np.flatnonzero((held == validator) | ((held != NOBODY) & ~np.isin(held, named)))
    rows = rows[np.argsort(results.miner[rows], kind="stable")]
    bounds = np.flatnonzero(np.diff(results.miner[rows], prepend=-1))[1:]
    pairs = []
    for answers in np.split(rows, bounds):
        mine, score = held[answers] == validator, results.score[answers]
        tested = _pair(results.item_cell[results.item[answers]], score, mine, rng)
        if tested is not None:
            pairs.append((int(results.miner[answers[0]]), float(score[mine].mean() - score[~mine].mean()), tested.p))
    adjusted = holm([p for *_, p in pairs])
    told = [
        Told(results.hotkeys[miner], lift, p, float(value), bool(value <= level))
        for (miner, lift, p), value in zip(pairs, adjusted, strict=True)
    ]
    return tuple(sorted(told, key=lambda t: (t.p, t.hotkey)))


def _pair(cell: Ints, score: Floats, mine: Bools, rng: np.random.Generator) -> permutation.Tested | None:
    found = [permutation.stratum(score[cell == c], mine[cell == c]) for c in np.unique(cell)]
    return permutation.test([s for s in found if s is not None], rng)
