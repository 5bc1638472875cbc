"""Which items are exposed, drawn by lot, so that exposed and fresh items have one difficulty.

Within each stratum (an environment of an epoch) the ``n`` items with the smallest HMAC under the epoch's exposure key
are exposed. Whoever has the key can draw again and compare: a list that somebody chose is not a lot, and the exact
test of ``permutation`` holds for lots only. Derive the key from the epoch's seed, so that it too was bound before
anybody knew the items.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from fractions import Fraction
from typing import Final

from ..errors import DesignMismatch, MalformedFacts
from .results import NOBODY, Results

DOMAIN: Final = b"integrity/exposure/v1"
KEY_BYTES: Final = 32
HALF: Final = Fraction(1, 2)
"""Share that gives the most power for a number of items."""


def draw_exposed(
    items: Collection[str], *, key: bytes, epoch: int, environment: str, share: Fraction = HALF
) -> frozenset[str]:
    """The exposed ones among ``items``: floor(share * n) of them.

    Args:
        items: Names, all different.
        key: 32 secret bytes until the epoch's items are exposed.
        epoch: Epoch of the items.
        environment: Their environment.
        share: Share to expose, in [0, 1].

    Raises:
        MalformedFacts: The key has another length, a name comes twice, or the share is none.
    """
    if len(key) != KEY_BYTES:
        raise MalformedFacts("not an exposure key", where="key", got=f"{len(key)} bytes", expected=KEY_BYTES)
    if not 0 <= share <= 1:
        raise MalformedFacts("not a share", where="share", got=str(share), expected="0 to 1")
    if len(set(items)) != len(items):
        raise MalformedFacts("an item comes twice", where="items", expected="different names")
    number = share.numerator * len(items) // share.denominator
    return frozenset(sorted(items, key=lambda item: _rank(key, epoch, environment, item))[:number])


def check_exposed(results: Results, *, key: bytes) -> None:
    """That the exposure on record is the one drawn from ``key``, in every cell; tracers take no part.

    Raises:
        DesignMismatch: Another item is exposed than was drawn; the message names the cell and the item.
    """
    for index, cell in enumerate(results.cells):
        mine = (results.item_cell == index) & (results.item_validator == NOBODY)
        names = [results.items[i] for i in mine.nonzero()[0]]
        exposed = {results.items[i] for i in (mine & results.item_exposed).nonzero()[0]}
        share = Fraction(len(exposed), max(len(names), 1))
        drawn = draw_exposed(names, key=key, epoch=cell.epoch, environment=cell.environment, share=share)
        for wrong in sorted(exposed ^ drawn):
            raise DesignMismatch(
                "exposure was not drawn from this key",
                where=f"epoch {cell.epoch}, {cell.environment}, item {wrong}",
                got=f"exposed {int(wrong in exposed)}",
                expected=f"exposed {int(wrong in drawn)}",
                remedy="Judge it as not randomised.",
            )


def _rank(key: bytes, epoch: int, environment: str, item: str) -> tuple[bytes, str]:
    message = b"".join(
        len(part).to_bytes(4, "big") + part
        for part in (DOMAIN, epoch.to_bytes(8, "big"), environment.encode(), item.encode())
    )
    return hmac.new(key, message, hashlib.sha256).digest(), item
