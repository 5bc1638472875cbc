"""Spans of attention matrices stay under what no symmetry of attention changes, and tell matrices apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fingerprint.architecture.interface import Role
from fingerprint.invariants import spans
from fingerprint.invariants.folding import Folding

WIDTH, SIZE, HEADS = 96, 16, 4


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation() -> torch.Tensor:
    return torch.linalg.qr(normal(7, WIDTH, WIDTH)).Q


def of(
    matrix: torch.Tensor,
    *kinds: str,
    probes: torch.Tensor | None = None,
    gain: torch.Tensor | None = None,
    rows: int = 2 * SIZE,
) -> dict[str, np.ndarray]:
    frame = spans.Frame(spans.scaled(normal(1, WIDTH, 16) if probes is None else probes, 16).float(), b"key")
    watched = spans.Spans(frame, Folding(None if gain is None else gain.float(), False), matrix.shape, HEADS, kinds)
    for _ in watched.watch(iter(matrix.float().split(rows))):
        pass
    return watched.value


def mixed(matrix: torch.Tensor) -> torch.Tensor:
    """Heads in another order, each with its rows mixed."""
    heads = matrix.reshape(HEADS, SIZE, -1)
    return torch.cat([normal(20 + h, SIZE, SIZE) @ heads[h] for h in (2, 0, 3, 1)])


def turned(matrix: torch.Tensor) -> torch.Tensor:
    """Rows i and i + SIZE / 2 of every head turned and scaled together."""
    heads = matrix.reshape(HEADS, 2, SIZE // 2, -1)
    angle = normal(5, SIZE // 2)[:, None]
    first = 1.7 * (angle.cos() * heads[:, 0] - angle.sin() * heads[:, 1])
    second = 1.7 * (angle.sin() * heads[:, 0] + angle.cos() * heads[:, 1])
    return torch.stack([first, second], dim=1).reshape(HEADS * SIZE, -1)


def test_mixing_and_permuting_heads_keep_what_a_reader_spans() -> None:
    matrix = normal(2, HEADS * SIZE, WIDTH)
    kinds = (spans.READER, spans.STORED)
    assert spans.distance(of(mixed(matrix), *kinds), of(matrix, *kinds), Role.VALUE) < 2e-3


def test_columns_of_a_writer_may_be_mixed_too() -> None:
    matrix = normal(3, HEADS * SIZE, WIDTH)
    assert spans.distance(of(mixed(matrix).T, spans.WRITER), of(matrix.T, spans.WRITER), Role.OUT) < 2e-3


def test_frequency_pairs_may_turn_and_scale_but_not_mix() -> None:
    matrix = normal(4, HEADS * SIZE, WIDTH)
    kinds = (spans.PAIRED, spans.STORED_PAIRED)
    assert spans.distance(of(turned(matrix), *kinds), of(matrix, *kinds), Role.KEY) < 2e-3
    assert spans.distance(of(mixed(matrix), *kinds), of(matrix, *kinds), Role.KEY) > 0.3


def test_a_rotated_stream_takes_the_probes_along() -> None:
    matrix, turn, probes = normal(2, HEADS * SIZE, WIDTH), rotation(), normal(1, WIDTH, 16)
    moved = of(matrix @ turn, spans.READER, probes=turn.T @ probes)
    assert spans.distance(moved, of(matrix, spans.READER, probes=probes), Role.VALUE) < 2e-3


def test_gains_fold_in_or_are_left_out() -> None:
    matrix, gain = normal(2, HEADS * SIZE, WIDTH), 0.5 + normal(9, WIDTH).abs()
    kept = of(matrix, spans.READER, spans.STORED, gain=gain)
    folded = of(matrix * gain, spans.READER, spans.STORED)
    assert spans.distance({spans.READER: folded[spans.READER]}, kept, Role.VALUE) < 2e-3
    assert spans.distance({spans.STORED: of(matrix, spans.STORED)[spans.STORED]}, kept, Role.VALUE) < 2e-3


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_noise_moves_spans_in_proportion_and_strangers_are_far(noise: float) -> None:
    matrix = normal(2, HEADS * SIZE, WIDTH)
    near = of(matrix + noise * normal(11, *matrix.shape), spans.READER)
    far = of(normal(12, *matrix.shape), spans.READER)
    here = of(matrix, spans.READER)
    assert 0.3 * noise < spans.distance(near, here, Role.VALUE) < 4 * noise
    assert spans.distance(far, here, Role.VALUE) > 0.5


def test_blocks_do_not_matter_and_dead_heads_do_no_harm() -> None:
    matrix = normal(2, HEADS * SIZE, WIDTH)
    matrix[:SIZE] = 0.0
    one, other = of(matrix, spans.READER, rows=SIZE), of(matrix, spans.READER, rows=HEADS * SIZE)
    np.testing.assert_allclose(one[spans.READER], other[spans.READER], atol=2e-3)
    assert np.isfinite(of(torch.zeros(HEADS * SIZE, WIDTH), spans.READER)[spans.READER]).all()


def test_fewer_probes_compare_with_more() -> None:
    matrix, probes = normal(2, HEADS * SIZE, WIDTH), normal(1, WIDTH, 16)
    few = spans.Frame(spans.scaled(probes, 8).float(), b"key")
    watched = spans.Spans(few, Folding(None, False), matrix.shape, HEADS, (spans.READER,))
    assert len(list(watched.watch(iter(matrix.float().split(SIZE))))) == HEADS
    assert spans.distance(watched.value, of(matrix, spans.READER, probes=probes), Role.VALUE) < 2e-3


def test_a_plan_fits_its_budget() -> None:
    assert [spans.size_for(layers, 65_536) for layers in (4, 32, 48, 126)] == [16, 16, 12, 8]


def test_roles_decide_what_is_made_unless_they_are_guessed() -> None:
    wide, square = (2 * WIDTH, WIDTH), (WIDTH, WIDTH)
    assert spans.kinds_of(Role.OUT, wide, rotary=True, doubtful=False) == (spans.WRITER,)
    assert spans.kinds_of(Role.KEY, wide, rotary=True, doubtful=False) == (spans.PAIRED, spans.STORED_PAIRED)
    assert spans.kinds_of(Role.KEY, wide, rotary=False, doubtful=False) == (spans.READER, spans.STORED)
    assert spans.WRITER not in spans.kinds_of(Role.KEY, wide, rotary=True, doubtful=True)
    assert spans.kinds_of(Role.OUT, square, rotary=True, doubtful=True) == spans.KINDS
