"""Items of one difficulty, so that the lot's luck with easy items is not taken for a lift.

A lot gives the arms one difficulty on average, not in each draw, and all miners share the draw: where it was uneven,
every honest miner would look a little guilty together. So the exact test swaps items within groups of like difficulty
only. A group is made of ranks of the items' means over units. Under the null a miner's scores are fixed
whatever the lot, so groups made of scores are as good as groups given beforehand; what cheats add to exposed items
makes them look easier than they are, and so speaks for the rest, never against them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .results import NOBODY, Cell, Floats, Results

MOST: Final = 10
"""Groups of a cell: enough to take nine tenths of the spread of difficulty away."""
ITEMS: Final = 25
"""Fewest items of a group, on average."""
UNITS: Final = 20
"""Units that answer an item, in the median, before its mean says much of anything but themselves."""


def by_difficulty(results: Results) -> Results:
    """The same rows with every cell cut into groups of like difficulty; cells keep epoch and environment."""
    mean, units = item_means(results)
    cells: list[Cell] = []
    item_cell = np.empty_like(results.item_cell)
    for index, cell in enumerate(results.cells):
        items = np.flatnonzero(results.item_cell == index)
        common = results.item_validator[items] == NOBODY
        count = int(common.sum())
        enough = count > 0 and np.median(units[items[common]]) >= UNITS
        groups = int(np.clip(count // ITEMS, 1, MOST)) if enough else 1
        rank = np.zeros(items.size, dtype=np.int64)
        rank[common] = np.argsort(np.argsort(mean[items[common]], kind="stable"), kind="stable")
        item_cell[items] = len(cells) + np.where(common, rank * groups // max(count, 1), 0)
        cells += [cell] * groups
    return Results(**{**vars(results), "cells": tuple(cells), "item_cell": item_cell})


def item_means(results: Results) -> tuple[Floats, Floats]:
    """Mean over units, and number of units, of each item, each shape (items,)."""
    unit = results.units[results.miner]
    span = len(results.unit_names)
    pair, inverse, sizes = np.unique(results.item * span + unit, return_inverse=True, return_counts=True)
    of_unit = np.bincount(inverse, weights=results.score) / sizes
    units = np.bincount(pair // span, minlength=len(results.items)).astype(float)
    total = np.bincount(pair // span, weights=of_unit, minlength=len(results.items))
    return np.asarray(total / np.maximum(units, 1)), units
