"""Paired per-item results, as arrays: who scored what on which item, and who had seen that item before.

Exposure is a property of an item within its epoch, the same for all miners; a *tracer* is a fresh item that one
validator alone received. A *unit* is a cluster of hotkeys with one operator or one model (copies); it counts once in
every fit and every correction for many tests.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import MalformedFacts

MAX_ROWS: Final = 20_000_000
"""Rows of one analysis: 256 miners, 2,000 items, some forty epochs."""
MAX_SCORE: Final = 1e9
"""Largest |score|; some environments count tokens."""
NOBODY: Final = -1

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Cell(NamedTuple):
    """Items that may be compared with each other: of one environment in one epoch."""

    epoch: int
    environment: str


_K = TypeVar("_K", str, tuple[Cell, str])


class Row(NamedTuple):
    """One score.

    Args:
        epoch: Epoch of the evaluation.
        hotkey: The miner.
        environment: What kind of task.
        item: Name of the item within epoch and environment.
        exposed: Whether the item could be known before the epoch.
        score: Higher is better; any scale, the same for all miners of an environment.
        validator: The only validator that received this item, for tracers; else None.
        line: Line of the file it came from, for messages; 0 if none.
    """

    epoch: int
    hotkey: str
    environment: str
    item: str
    exposed: bool
    score: float
    validator: str | None = None
    line: int = 0


@dataclass(frozen=True, eq=False)
class Results:
    """All rows of an analysis.

    Args:
        hotkeys: Miners, sorted.
        units: Index of each miner's unit, shape (miners,).
        unit_names: Names of units: a cluster's name, or the hotkey of a miner that is alone.
        cells: Cells, sorted.
        items: Names of items.
        item_cell: Cell of each item, shape (items,).
        item_exposed: Whether each item was exposed, shape (items,).
        item_validator: Index of the validator that alone received it, or ``NOBODY``, shape (items,).
        validators: Validators that have tracers, sorted.
        miner: Miner of each row, shape (rows,).
        item: Item of each row, shape (rows,).
        score: Score of each row, shape (rows,).
    """

    hotkeys: tuple[str, ...]
    units: Ints
    unit_names: tuple[str, ...]
    cells: tuple[Cell, ...]
    items: tuple[str, ...]
    item_cell: Ints
    item_exposed: Bools
    item_validator: Ints
    validators: tuple[str, ...]
    miner: Ints
    item: Ints
    score: Floats

    def digest(self) -> str:
        """``sha256:`` and 64 hex digits over the rows in one order; clusters are an opinion and not part of it."""
        whole = hashlib.sha256()
        for index in np.lexsort((self.miner, self.item)):
            item = self.item[index]
            cell, validator = self.cells[self.item_cell[item]], self.item_validator[item]
            words = (
                str(cell.epoch),
                cell.environment,
                self.items[item],
                self.hotkeys[self.miner[index]],
                str(int(self.item_exposed[item])),
                "" if validator == NOBODY else self.validators[validator],
                repr(float(self.score[index])),
            )
            encoded = [word.encode("utf-8", "surrogatepass") for word in words]
            whole.update(b"".join(len(word).to_bytes(4, "big") + word for word in encoded))
        return "sha256:" + whole.hexdigest()

    def only(self, rows: Bools) -> Results:
        """The same miners, cells and items with fewer rows."""
        return Results(**{**vars(self), "miner": self.miner[rows], "item": self.item[rows], "score": self.score[rows]})

    def merged_epochs(self) -> Results:
        """All epochs as one: for old and fresh items that were evaluated in different epochs."""
        names = sorted({cell.environment for cell in self.cells})
        code = {name: index for index, name in enumerate(names)}
        renamed = np.array([code[cell.environment] for cell in self.cells], dtype=np.int64)
        last = max(cell.epoch for cell in self.cells)
        cells = tuple(Cell(last, name) for name in names)
        return Results(**{**vars(self), "cells": cells, "item_cell": renamed[self.item_cell]})


@dataclass
class _Reading:
    """What is known while rows come in."""

    miners: dict[str, int] = field(default_factory=dict)
    items: dict[tuple[Cell, str], int] = field(default_factory=dict)
    facts: list[tuple[bool, str | None]] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    miner: list[int] = field(default_factory=list)
    item: list[int] = field(default_factory=list)
    score: list[float] = field(default_factory=list)

    def add(self, row: Row) -> None:
        _check(row)
        miner = self.miners.setdefault(row.hotkey, len(self.miners))
        key = (Cell(row.epoch, row.environment), row.item)
        item = self.items.setdefault(key, len(self.items))
        facts = (row.exposed, row.validator)
        if item == len(self.facts):
            self.facts.append(facts)
        elif self.facts[item] != facts:
            raise MalformedFacts(
                "the item is exposed differently in another row",
                where=_where(row),
                got=_exposure(*facts),
                expected=_exposure(*self.facts[item]),
            )
        if (miner, item) in self.seen:
            raise MalformedFacts(
                "a second score for the same epoch, hotkey, environment and item",
                where=_where(row),
                got=f"{row.epoch},{row.hotkey},{row.environment},{row.item}",
                expected="one row each",
            )
        self.seen.add((miner, item))
        self.miner.append(miner)
        self.item.append(item)
        self.score.append(row.score)


def from_rows(rows: Iterable[Row], *, clusters: Mapping[str, str] | None = None) -> Results:
    """Rows as arrays.

    Args:
        rows: In any order.
        clusters: Cluster of a hotkey; who is absent is alone.

    Raises:
        MalformedFacts: No rows, too many, a second score for one item, an item exposed and not, or a score that is
            not a number.
    """
    reading = _Reading()
    for row in rows:
        if len(reading.score) == MAX_ROWS:
            raise MalformedFacts("too many rows", where="results", got=f"more than {MAX_ROWS}", expected=MAX_ROWS)
        reading.add(row)
    if not reading.score:
        raise MalformedFacts("no rows", where="results", expected="at least one score")
    return _arrays(reading, clusters or {})


def _arrays(reading: _Reading, clusters: Mapping[str, str]) -> Results:
    hotkeys, miner_order = _sorted(reading.miners)
    keys, item_order = _sorted(reading.items)
    cells = sorted({cell for cell, _ in keys})
    cell_code = {cell: index for index, cell in enumerate(cells)}
    facts: list[tuple[bool, str | None]] = [(False, None)] * len(keys)
    for old, new in enumerate(item_order):
        facts[new] = reading.facts[old]
    validators = sorted({validator for _, validator in facts if validator is not None})
    code = {name: index for index, name in enumerate(validators)}
    units, unit_names = group(hotkeys, clusters)
    return Results(
        hotkeys=tuple(hotkeys),
        units=units,
        unit_names=unit_names,
        cells=tuple(cells),
        items=tuple(name for _, name in keys),
        item_cell=np.array([cell_code[cell] for cell, _ in keys], dtype=np.int64),
        item_exposed=np.array([exposed for exposed, _ in facts], dtype=bool),
        item_validator=np.array([NOBODY if v is None else code[v] for _, v in facts], dtype=np.int64),
        validators=tuple(validators),
        miner=miner_order[np.array(reading.miner, dtype=np.int64)],
        item=item_order[np.array(reading.item, dtype=np.int64)],
        score=np.array(reading.score, dtype=float),
    )


def group(hotkeys: Iterable[str], clusters: Mapping[str, str]) -> tuple[Ints, tuple[str, ...]]:
    """Unit of each hotkey, and the units' names; a cluster and a lone hotkey of one name stay apart."""
    keys = [("cluster", clusters[h]) if h in clusters else ("hotkey", h) for h in hotkeys]
    names = sorted(set(keys))
    code = {key: index for index, key in enumerate(names)}
    return np.array([code[key] for key in keys], dtype=np.int64), tuple(name for _, name in names)


def _sorted(codes: dict[_K, int]) -> tuple[list[_K], Ints]:
    """Keys in order, and the new index of each old one."""
    keys = sorted(codes)
    order = np.empty(len(keys), dtype=np.int64)
    for new, key in enumerate(keys):
        order[codes[key]] = new
    return keys, order


def _check(row: Row) -> None:
    for name in ("hotkey", "environment", "item"):
        if not getattr(row, name):
            raise MalformedFacts("empty", where=f"{_where(row)}: {name}", expected="a name")
    if row.epoch < 0:
        raise MalformedFacts("not an epoch", where=f"{_where(row)}: epoch", got=row.epoch, expected="0 or more")
    if not math.isfinite(row.score) or abs(row.score) > MAX_SCORE:
        raise MalformedFacts(
            "not a score", where=f"{_where(row)}: score", got=row.score, expected=f"a number within {MAX_SCORE:g}"
        )
    if row.validator is not None and row.exposed:
        raise MalformedFacts(
            "a tracer that is exposed to everybody traces nobody",
            where=f"{_where(row)}: validator",
            got=row.validator,
            expected="exposed 0 where a validator is named",
        )


def _exposure(exposed: bool, validator: str | None) -> str:
    return f"tracer of {validator}" if validator is not None else f"exposed {int(exposed)}"


def _where(row: Row) -> str:
    return f"line {row.line}" if row.line else "row"
