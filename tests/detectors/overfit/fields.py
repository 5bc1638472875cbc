"""Fields of miners whose truth is known: abilities, item difficulties, who learned what, who leaked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detectors.overfit.results import NOBODY, Cell, Results, group


@dataclass(frozen=True)
class Truth:
    cheats: frozenset[str]
    leaker: str


def field(
    seed: int,
    *,
    miners: int = 40,
    items: int = 200,
    cheats: int = 3,
    lift: float = 0.3,
    drift: float = 0.0,
    by_lot: bool = False,
    epochs: int = 1,
    environments: int = 1,
    validators: int = 0,
    tracers: int = 0,
    told: bool = True,
    graded: bool = False,
    clusters: dict[str, str] | None = None,
) -> tuple[Results, Truth]:
    """``items`` in each arm of each cell; fresh ones harder by ``drift`` logits unless exposure is by lot."""
    rng = np.random.default_rng(seed)
    ability = rng.normal(0, 0.8, miners)
    guilty = np.zeros(miners, dtype=bool)
    guilty[rng.choice(miners, cheats, replace=False)] = True
    cells = [Cell(e, f"env{k}") for e in range(epochs) for k in range(environments)]
    total = 2 * items + validators * tracers
    scores, exposed, held = [], [], []
    for _ in cells:
        difficulty = rng.normal(0, 1.0, total)
        known = np.arange(total) < items
        holder = np.full(total, NOBODY)
        holder[2 * items :] = np.repeat(np.arange(validators), tracers)
        difficulty[~known] += 0.0 if by_lot else drift
        chance = 1 / (1 + np.exp(difficulty[None] - ability[:, None]))
        learned = known | ((holder == 0) & told)
        chance = np.where(guilty[:, None] & learned[None], np.minimum(chance + lift, 1), chance)
        scores.append(
            rng.beta(4 * chance + 1e-3, 4 * (1 - chance) + 1e-3) if graded else rng.random(chance.shape) < chance
        )
        exposed.append(known)
        held.append(holder)
    hotkeys = tuple(f"miner-{i:03}" for i in range(miners))
    units, names = group(hotkeys, clusters or {})
    width = total * len(cells)
    results = Results(
        hotkeys=hotkeys,
        units=units,
        unit_names=names,
        cells=tuple(cells),
        items=tuple(f"item-{i}" for i in range(width)),
        item_cell=np.repeat(np.arange(len(cells)), total),
        item_exposed=np.concatenate(exposed),
        item_validator=np.concatenate(held),
        validators=tuple(f"validator-{i}" for i in range(validators)),
        miner=np.repeat(np.arange(miners), width),
        item=np.tile(np.arange(width), miners),
        score=np.hstack(scores).astype(float).ravel(),
    )
    return results, Truth(frozenset(np.array(hotkeys)[guilty]), "validator-0")
