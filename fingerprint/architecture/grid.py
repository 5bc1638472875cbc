"""Layers without words: find the stack by the numbers in names, or by shapes that repeat in order.

Renaming hides what tensors are called, but a loader still has to find them: either names keep a layer number, or the
order of storage does. A ``Kind`` is a tensor that every layer has, whatever it is called.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.checkpoint.interface import TensorInfo

TOKEN = re.compile(r"[A-Za-z]+|\d+")
MAX_PERIOD = 4096
"""Longest run of tensors tried as one layer (a layer of 384 experts has about 1200)."""

LEAST_PERIOD = 4
LONGEST_NUMBER = 9
"""Digits of a number that can be an index; hashes have longer ones."""


@dataclass(frozen=True)
class Kind:
    """A tensor that recurs in every layer.

    Attributes:
        key: Its name with the layer's number taken out; unique in its grid.
        names: Stored name by layer.
        shape: Stored shape, the same in every layer.
        words: Lower-case words and numbers of the key.
        place: Position within the layer, in storage order.
    """

    key: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    words: tuple[str, ...]
    place: int

    @property
    def parent(self) -> tuple[str, ...]:
        """Words less the last: shared by a matrix and its bias, or a gain and its bias."""
        return self.words[:-1]


@dataclass(frozen=True)
class Grid:
    """Kinds by layers, and what is outside.

    ``ordered``: found by order, so that neighbouring places mean something. ``bag``: layers were put together by
    values, so that their order means nothing and attention may stand with another layer's MLP.
    """

    kinds: tuple[Kind, ...]
    layers: int
    rest: tuple[str, ...]
    ordered: bool
    bag: bool = False


def find_grid(tensors: Mapping[str, TensorInfo]) -> Grid | None:
    """The stack of layers that covers most parameters, by numbers in names, else by order.

    Args:
        tensors: Stored tensors, in storage order.

    Returns:
        None where nothing repeats.
    """
    by_number = _by_number(tensors)
    if by_number is not None:
        return by_number
    natural = sorted(tensors, key=_natural)
    orders = [list(tensors)] + ([natural] if natural != list(tensors) else [])
    found = [grid for order in orders if (grid := _by_order(tensors, order)) is not None]
    return max(found, key=lambda grid: grid.layers * len(grid.kinds), default=None)


def words_of(name: str) -> tuple[str, ...]:
    """Lower-case words and numbers of a name."""
    return tuple(token.lower() for token in TOKEN.findall(name))


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts ``val_57`` before ``val_105``."""
    return tuple((0, int(t), "") if t.isdigit() and len(t) < 19 else (1, 0, t) for t in TOKEN.findall(name))


def _by_number(tensors: Mapping[str, TensorInfo]) -> Grid | None:
    """Names that differ in one number only, and have one shape, are one kind."""
    groups: dict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
    places: dict[str, list[tuple[str, ...]]] = {}
    for name in tensors:
        tokens = TOKEN.findall(name)
        for position, token in enumerate(tokens):
            if token.isdigit() and len(token) <= LONGEST_NUMBER:
                key = (*map(str, tokens[:position]), "#", *map(str, tokens[position + 1 :]))
                groups[key].setdefault(int(token), name)
                places.setdefault(name, []).append(key)
    chosen = {name: next((k for k in keys if len(groups[k]) > 1), None) for name, keys in places.items()}
    weight: Counter[frozenset[int]] = Counter()
    for name, stem in chosen.items():
        if stem is not None:
            weight[frozenset(groups[stem])] += tensors[name].numel
    if not weight:
        return None
    layers = sorted(max(weight.items(), key=lambda item: (item[1], len(item[0])))[0])
    kinds: list[Kind] = []
    for key, members in groups.items():
        names = tuple(members.get(number, "") for number in layers)
        whole = len(members) == len(layers) and all(chosen.get(name) == key for name in names)
        if whole and len({tensors[name].shape for name in names}) == 1:
            words = tuple(word.lower() for word in key if word != "#")
            kinds.append(Kind(".".join(key), names, tensors[names[0]].shape, words, len(kinds)))
    return _grid(kinds, len(layers), tensors, ordered=False)


def _by_order(tensors: Mapping[str, TensorInfo], order: Sequence[str]) -> Grid | None:
    """The longest run of tensors whose shapes repeat with one period."""
    table: dict[tuple[int, ...], int] = {}
    ids = np.array([table.setdefault(tensors[name].shape, len(table)) for name in order], dtype=np.int64)
    best = (0, 0, 0)  # tensors covered, -period, start
    for period in range(LEAST_PERIOD, min(MAX_PERIOD, len(ids) // 2) + 1):
        start, length = _longest_run(ids[:-period] == ids[period:])
        covered = (length + period) // period * period if length >= period else 0
        best = max(best, (covered, -period, start))
    covered, period, start = best[0], -best[1], best[2]
    if not covered:
        return None
    layers = covered // period
    kinds = []
    for place in range(period):
        names = tuple(order[start + layer * period + place] for layer in range(layers))
        kinds.append(Kind(f"place {place}", names, tensors[names[0]].shape, (), place))
    return _grid(kinds, layers, tensors, ordered=True)


def _longest_run(flags: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[::2][longest]), int(lengths[longest])


def _grid(kinds: list[Kind], layers: int, tensors: Mapping[str, TensorInfo], *, ordered: bool) -> Grid | None:
    inside = {name for kind in kinds for name in kind.names}
    rest = tuple(name for name in tensors if name not in inside)
    return Grid(tuple(kinds), layers, rest, ordered) if kinds else None
