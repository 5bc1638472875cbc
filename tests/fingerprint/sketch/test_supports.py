"""Sign bits and top-k sets: how they decay with noise, and that ties do not collude."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fingerprint.sketch import topk
from fingerprint.sketch.keyed import DEFAULT_KEY
from fingerprint.sketch.linear import Projection, sketch_matrix
from fingerprint.sketch.signs import flip_rate, noise_from_flips, sign_bits


def _random(seed: int, shape: tuple[int, int] = (256, 320)) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
def test_flip_rate_tells_the_noise(noise: float) -> None:
    projection = Projection(DEFAULT_KEY, 64)
    rates = []
    for seed in range(4):
        matrix = _random(seed)
        noisy = matrix + noise * _random(seed + 50)
        rates.append(flip_rate(*(sign_bits(sketch_matrix(m, projection), 64) for m in (matrix, noisy))))
    assert np.mean(rates) == pytest.approx(np.arctan(noise) / np.pi, rel=0.25)
    assert noise_from_flips(float(np.arctan(noise) / np.pi)) == pytest.approx(noise)


def test_unrelated_signs_are_a_coin_toss() -> None:
    projection = Projection(DEFAULT_KEY, 64)
    first, second = (sign_bits(sketch_matrix(_random(s), projection)) for s in (0, 1))
    assert first.size == 32
    assert 0.35 < flip_rate(first, second) < 0.65


def _top(matrix: torch.Tensor, rows: int = 32) -> np.ndarray:
    top = topk.TopIndices((matrix.shape[0], matrix.shape[1]), DEFAULT_KEY)
    for start in range(0, matrix.shape[0], rows):
        top.update(matrix[start : start + rows])
    return top.indices


@pytest.mark.parametrize("rows", [1, 7, 32, 256])
def test_top_indices_are_exact_for_any_blocks(rows: int) -> None:
    matrix = _random(0)
    k = topk.size_of(matrix.numel())
    expected = np.sort(torch.topk(matrix.abs().reshape(-1), k).indices.numpy())
    np.testing.assert_array_equal(_top(matrix, rows), expected)


def test_growing_rows_do_not_overflow_the_candidates() -> None:
    matrix = torch.arange(40_000, dtype=torch.float32).reshape(400, 100)
    np.testing.assert_array_equal(_top(matrix), np.arange(40_000 - topk.size_of(40_000), 40_000))


def test_ties_are_broken_alike_but_not_by_position() -> None:
    first, second = torch.sign(_random(0)), torch.sign(_random(1))
    np.testing.assert_array_equal(_top(first, 5), _top(first, 256))
    assert _top(first).max() > first.numel() * 0.9
    # Constant magnitudes leave nothing to tell them by: the sets agree because the keyed order does.
    np.testing.assert_array_equal(_top(first), _top(second))


def test_minhash_estimates_jaccard_and_is_pinned() -> None:
    matrix = _random(0)
    sets = [_top(m) for m in (matrix, matrix + 0.1 * _random(9), _random(5))]
    hashes = [topk.minhash(s) for s in sets]
    for other in (1, 2):
        true = np.intersect1d(sets[0], sets[other]).size / np.union1d(sets[0], sets[other]).size
        assert topk.jaccard(hashes[0], hashes[other]) == pytest.approx(true, abs=0.2)
    assert hashes[0].dtype == np.uint32
    assert topk.minhash(np.array([1, 2, 3]))[:3].tolist() == [3030975794, 722428402, 1300064280]
    assert topk.minhash(np.empty(0, dtype=np.int64)).shape == (64,)
