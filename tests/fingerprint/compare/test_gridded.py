"""What a grid of stored values proves: rounding alone, order kept, or too little to say."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare import gridded
from fingerprint.compare.evidence import SlotChange
from fingerprint.fingerprint import Lattice, SlotSketch, Statistics

SLOT = Slot(Role.UP, 0)
COLUMNS = np.arange(64)
PLACES = (COLUMNS, COLUMNS)


def bf16(values: np.ndarray) -> np.ndarray:
    codes = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (codes + 0x7FFF + ((codes >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def weights(seed: int = 0) -> np.ndarray:
    return bf16(np.random.default_rng(seed).normal(size=(64, 64)) * 0.02)


def int8(w: np.ndarray, group: int = 64) -> np.ndarray:
    parts = w.reshape(64, -1, group)
    scale = np.abs(parts).max(-1, keepdims=True) / 127
    return bf16((np.round(parts / scale) * scale).reshape(w.shape))


def light(w: np.ndarray, share: float, seed: int = 3) -> np.ndarray:
    """A coherent update of .25% that reaches ``share`` of the values."""
    rng = np.random.default_rng(seed)
    step = np.outer(rng.normal(size=64), rng.normal(size=64)) * 0.0025 * 0.02
    return bf16(w + step * (rng.random(w.shape) < share))


def sketch(grid: np.ndarray, scheme: str = "") -> SlotSketch:
    statistics = Statistics(float(np.linalg.norm(grid)), 0.0, 0.0, float(np.abs(grid).max()), 0.0, np.zeros(9))
    lattice = Lattice(8 if scheme else 0, scheme, np.zeros(9))
    return SlotSketch((64, 64), statistics, lattice, grid[:32, :32], False, None, "w", grid=grid.astype(np.float32))


def change(c: np.ndarray, r: np.ndarray, scheme: str = "") -> SlotChange:
    ours, theirs = gridded.Seen(c, c), gridded.Seen(r, r)
    return gridded.change(SLOT, sketch(c, scheme), sketch(r), ours, theirs, None, refolded=False, places=PLACES)


@pytest.mark.parametrize("group", [64, 32])
def test_rounding_to_levels_keeps_the_order_of_what_shares_a_scale(group: int) -> None:
    assert gridded.in_order(int8(weights(), group), weights(), PLACES, 64)


def test_a_light_update_that_was_then_quantised_swaps_neighbours() -> None:
    assert not gridded.in_order(int8(light(weights(), 1.0)), weights(), PLACES, 64)


def test_order_of_few_values_proves_nothing() -> None:
    w = weights()[:1, :8]
    assert not gridded.in_order(w, w, (COLUMNS[:1], COLUMNS[:8]), 64)


def test_a_quantised_reference_leaves_nothing_and_a_quantised_child_settles_nothing() -> None:
    copy = change(int8(weights()), weights(), "int8-row")
    assert (copy.residual, copy.kind) == (0.0, "quantised:int8")
    child = change(int8(light(weights(), 1.0)), weights(), "int8-row")
    assert child.channel == gridded.UNSETTLED
    assert child.residual > 0.0


def test_a_multiple_is_seen_by_its_rounding() -> None:
    scaled = change(bf16(weights() * 1.01), weights())
    assert scaled.residual == 0.0
    assert scaled.scale == pytest.approx(0.01, abs=2e-4)
    trained = change(bf16(light(weights(), 1.0) * 1.01), weights())
    assert trained.residual > 0.0


def test_an_update_of_a_few_values_in_a_hundred_settles_nothing() -> None:
    assert change(light(weights(), 0.05), weights()).channel == gridded.UNSETTLED
    assert change(light(weights(), 1.0), weights()).channel == "grid-64"
