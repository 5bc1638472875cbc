"""A simulated field: abilities, item difficulties, copies, cheats who memorised, validators with tracers.

A miner of ability a answers an item of difficulty d rightly with probability 1 / (1 + exp(d - a)) (Rasch). A cheat
has memorised a share f of the items it was told of, and answers those rightly; f is set so that the cheat's mean gain
is the lift. Where exposure follows the calendar, fresh items are harder by ``drift`` logits, for each miner by its own
factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detectors.overfit.results import NOBODY, Cell, Results

ABILITY_SD = 0.8
DIFFICULTY_SD = 1.0


@dataclass(frozen=True)
class World:
    """Parameters of a field.

    Args:
        lift: Mean gain of a cheat on what it was told.
        items: Items in each arm.
        drift: How much harder fresh items are, in logits; 0 where exposure is by lot.
        drift_sd: Spread of the miners' own factors on drift: some feel harder items more than others.
        miners: Hotkeys in all.
        share: Share of cheats among them.
        copies: Hotkeys, among the honest, that are exact copies of one model and known to be.
        validators: Validators with tracers; the first leaks.
        tracers: Tracers of each.
    """

    lift: float
    items: int
    drift: float = 0.0
    drift_sd: float = 0.0
    miners: int = 256
    share: float = 0.05
    copies: int = 16
    validators: int = 0
    tracers: int = 0

    @property
    def cheats(self) -> int:
        """Number of cheats."""
        return round(self.miners * self.share) if self.lift > 0 else 0


def field(world: World, rng: np.random.Generator) -> tuple[Results, NDArray[np.bool_]]:
    """Results of one epoch, and who cheats, shape (miners,)."""
    cheats = np.arange(world.miners) < world.cheats
    first = world.miners - world.copies  # the last hotkeys are the copies
    ability = rng.normal(0, ABILITY_SD, world.miners)
    total = 2 * world.items + world.validators * world.tracers
    exposed = np.arange(total) < world.items
    holder = np.full(total, NOBODY)
    holder[2 * world.items :] = np.repeat(np.arange(world.validators), world.tracers)
    factor = world.drift * (1 + world.drift_sd * rng.normal(size=world.miners))
    difficulty = rng.normal(0, DIFFICULTY_SD, total)
    chance = 1 / (1 + np.exp(difficulty + np.outer(factor, ~exposed) - ability[:, None]))
    told = exposed | (holder == 0)
    for miner in np.flatnonzero(cheats):
        known = min(1.0, world.lift / (1 - chance[miner, told].mean()))
        chance[miner, told] += known * (1 - chance[miner, told])
    right = (rng.random(chance.shape) < chance).astype(float)
    right[first:] = right[first : first + 1]
    units = np.minimum(np.arange(world.miners), first) if world.copies else np.arange(world.miners)
    hotkeys = tuple(f"miner-{i:03}" for i in range(world.miners))
    results = Results(
        hotkeys=hotkeys,
        units=units,
        unit_names=tuple(hotkeys[: int(units.max()) + 1]),
        cells=(Cell(0, "simulated"),),
        items=tuple(f"item-{i}" for i in range(total)),
        item_cell=np.zeros(total, dtype=np.int64),
        item_exposed=exposed,
        item_validator=holder,
        validators=tuple(f"validator-{i}" for i in range(world.validators)),
        miner=np.repeat(np.arange(world.miners), total),
        item=np.tile(np.arange(total), world.miners),
        score=right.ravel(),
    )
    return results, cheats
