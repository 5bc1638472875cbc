"""Sign bits: the cheapest thing that still finds a noisy copy.

A one-bit projection flips with probability arctan(e)/pi when noise of relative size e is added, so a copy with 10%
noise keeps 97% of its bits and an unrelated matrix half. The entries of a linear sketch are such projections
(nearly independent ones), so their signs cost nothing to make and nothing to store.
"""

from __future__ import annotations

import numpy as np

SIDE = 16
"""The leading 16 x 16 block of a sketch gives 256 bits; smaller sketches give what they have."""


def sign_bits(sketch: np.ndarray, side: int = SIDE) -> np.ndarray:
    """Signs of the leading block, packed.

    Args:
        sketch: float (r, s), or (n,) for a vector.
        side: Side of the block that is used.

    Returns:
        uint8 array, bits in C order, little bit first; zero counts as positive.
    """
    block = sketch[:side, :side] if sketch.ndim == 2 else sketch[: side * side]
    return np.packbits(block.reshape(-1) >= 0, bitorder="little")


def flip_rate(first: np.ndarray, second: np.ndarray) -> float:
    """Fraction of differing bits between two packed sets of equal length; 0.5 for unrelated matrices."""
    if first.shape != second.shape or first.size == 0:
        return 0.5
    return float(np.unpackbits(first ^ second).mean())


def noise_from_flips(rate: float) -> float:
    """Relative noise that explains a flip rate: tan(pi * rate); infinite from one half on."""
    return float(np.tan(np.pi * rate)) if rate < 0.5 else float("inf")
