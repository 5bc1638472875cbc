"""The ordered front: who survives in strict commit order, who took the crown from whom.

In commit order, each model is held against the earlier ones that entered:

- **held**: it is better by its margin nowhere than some model that entered before it. It adds nothing and is out.
  Copies end here.
- **enters**: it is better somewhere than each of them. It survives until a later one that enters is worse nowhere than
  it: then it is **dethroned**.
- **crown**: passes to a model that enters, is worse nowhere than whoever wears it, and worse nowhere than anybody who
  ever wore it.

Dominance with margins is not transitive (a model may be a little worse each time and much worse in the end), so what
entered goes on holding after it was dethroned, and the crown remembers. Therefore no copy of a fallen model comes back,
no wearer of the crown is worse anywhere than an earlier wearer, and what happened to a model never depends on what
came after it. Decision: docs/decisions/0060.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .comparing import Bools, Pairwise, Places

BLOCK: Final = 32
"""Models of the first block; blocks double, for the later ones mostly end at the models that entered before."""
SMALL: Final = 64
FIRST: Final = 16
"""Entered models, the strongest first, that all newcomers meet before any meets the others."""
_NOBODY: Final = -1


@dataclass(frozen=True)
class Front:
    """What became of everybody; places are those of the field.

    Args:
        entered: Models that were better somewhere than all that entered before, in order.
        dethroned_by: For each place the first model that dethroned it, -1 for nobody.
        crowns: Wearers of the crown, in order.
    """

    entered: Places
    dethroned_by: Places
    crowns: tuple[int, ...]

    @property
    def crown(self) -> int | None:
        """Who wears it."""
        return self.crowns[-1] if self.crowns else None

    @property
    def survivors(self) -> Places:
        """Entered and not dethroned, in order."""
        kept: Places = self.entered[self.dethroned_by[self.entered] == _NOBODY]
        return kept


def run(pairs: Pairwise, competing: Places, count: int) -> Front:
    """Play the models in order.

    Args:
        pairs: How to compare.
        competing: Places that compete, in commit order.
        count: Places of the field.
    """
    dethroned_by = np.full(count, _NOBODY, dtype=np.intp)
    entered: Places = competing[:0]
    crowns: list[int] = []
    start, size = 0, BLOCK
    while start < len(competing):
        alive = _unheld(pairs, competing[start : start + size], entered)
        start, size = start + size, size * 2
        new = _enter(pairs, alive)
        if not len(new):
            continue
        worse = pairs.worse(new, np.concatenate([entered, new]))
        _dethrone(worse, new, entered, dethroned_by)
        before, entered = len(entered), np.concatenate([entered, new])
        _crown(worse, entered, before, crowns)
    return Front(entered, dethroned_by, tuple(crowns))


def holder(pairs: Pairwise, front: Front, place: int) -> int | None:
    """The first model that holds a held one; None when it entered."""
    earlier = front.entered[front.entered < place]
    holds = ~pairs.better(np.array([place]), earlier)[0]
    return int(earlier[np.argmax(holds)]) if holds.any() else None


def cycles(pairs: Pairwise, front: Front) -> tuple[tuple[int, int], ...]:
    """Pairs (later, earlier) of wearers of the crown of which the later is worse somewhere; there is none."""
    crowns = np.array(front.crowns, dtype=np.intp)
    worse = pairs.worse(crowns, crowns)
    return tuple((int(crowns[i]), int(crowns[j])) for i, j in zip(*np.nonzero(np.tril(worse, -1)), strict=True))


def _unheld(pairs: Pairwise, newcomers: Places, entered: Places) -> Places:
    """Those that no model that entered before holds; the strongest are met first, for they hold most."""
    by_strength = entered[np.argsort(-pairs.strength(entered), kind="stable")]
    start, size = 0, FIRST
    while start < len(by_strength) and len(newcomers):
        met = by_strength[start : start + size]
        newcomers = pairs.beat_all(newcomers, met)
        start, size = start + size, size * 4
    return newcomers


def _enter(pairs: Pairwise, alive: Places) -> Places:
    """Those that also no earlier one of their own block holds, a few at a time."""
    entered = alive[:0]
    for start in range(0, len(alive), SMALL):
        few = _unheld(pairs, alive[start : start + SMALL], entered)
        beats = np.ascontiguousarray(pairs.better(few, few).T)
        standing = np.ones(len(few), dtype=np.bool_)
        for place in range(len(few)):
            if standing[place]:
                standing[place + 1 :] &= beats[place, place + 1 :]
        entered = np.concatenate([entered, few[standing]])
    return entered


def _dethrone(worse: Bools, new: Places, entered: Places, dethroned_by: Places) -> None:
    """Whoever entered earlier falls to the first newcomer that is worse nowhere than it."""
    everybody = np.concatenate([entered, new])
    dominates = ~worse
    own = np.arange(len(new)) + len(entered)
    dominates &= np.arange(len(everybody))[None, :] < own[:, None]
    falls = dominates.any(axis=0) & (dethroned_by[everybody] == _NOBODY)
    dethroned_by[everybody[falls]] = new[np.argmax(dominates[:, falls], axis=0)]


def _crown(worse: Bools, everybody: Places, before: int, crowns: list[int]) -> None:
    """Pass the crown through the newcomers, whose first stands at ``before``."""
    place_of = {int(place): column for column, place in enumerate(everybody)}
    if not crowns:
        crowns.append(int(everybody[0]))
    columns = [place_of[place] for place in crowns]
    for row in range(len(worse)):
        column = before + row
        if column != columns[0] and not worse[row, columns].any():
            columns.append(column)
            crowns.append(int(everybody[column]))
