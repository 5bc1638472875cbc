"""Whether there is enough in a checkpoint to compare at all.

NaN and infinity are taken as zero by everything but the digests, and a matrix of zeros agrees with every other one, so
two models that hold little else would be found to be the same. One value in a padding row must not hide a copy either;
hence shares: a model that computes anything has far less than the first, and identity layers far less than the second.
"""

from __future__ import annotations

from typing import Final

from fingerprint.fingerprint import Fingerprint, SlotSketch

MOST_NONFINITE: Final = 0.01
"""Share of parameters in rows that hold NaN or infinity, from which nothing is concluded from values."""
MOST_EMPTY: Final = 0.5
"""The same for these and matrices of zeros together."""


def blind(fingerprint: Fingerprint) -> str:
    """Why nothing can be concluded from the values of a model; empty where something can."""
    whole = sum(sketch.numel for sketch in fingerprint.slots.values())
    if not whole:
        return ""
    nonfinite = sum(_nonfinite(sketch) for sketch in fingerprint.slots.values()) / whole
    if nonfinite > MOST_NONFINITE:
        return f"{nonfinite:.0%} of the parameters lie in rows with NaN or infinity"
    zero = sum(sketch.numel for sketch in fingerprint.slots.values() if sketch.norm == 0.0) / whole
    return f"{nonfinite + zero:.0%} of the parameters are zero" if nonfinite + zero > MOST_EMPTY else ""


def _nonfinite(sketch: SlotSketch) -> int:
    """Parameters in rows that hold NaN or infinity; of a vector, the values themselves."""
    if len(sketch.shape) < 2:
        return sketch.statistics.nonfinite
    return min(sketch.numel, sketch.statistics.nonfinite * (sketch.numel // max(1, sketch.shape[0])))
