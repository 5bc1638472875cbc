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


def _top(matrix: torch.Tensor) -> np.ndarray:
    return topk.top_indices(matrix.numpy(), np.arange(matrix.shape[0]), DEFAULT_KEY)


def test_top_indices_are_exact() -> None:
    matrix = _random(0)
    expected = np.sort(torch.topk(matrix.abs().reshape(-1), topk.size_of(matrix.numel())).indices.numpy())
    np.testing.assert_array_equal(_top(matrix), expected)


def test_sampled_rows_keep_their_place_in_the_matrix() -> None:
    matrix, rows = _random(0), np.array([3, 10, 200])
    found = topk.top_indices(matrix[torch.from_numpy(rows)].numpy(), rows, DEFAULT_KEY)
    assert set(np.unique(found // matrix.shape[1])) <= set(rows.tolist())
    flat = matrix.abs().reshape(-1).numpy()
    rest = np.setdiff1d(np.arange(3 * 320), [], assume_unique=True)
    assert flat[found].min() >= np.sort(flat.reshape(matrix.shape)[rows].reshape(-1))[rest.size - found.size]


def test_ties_are_broken_by_key_and_not_by_position() -> None:
    signs = torch.sign(_random(0))
    found = _top(signs)
    assert found.max() > signs.numel() * 0.9
    np.testing.assert_array_equal(found, _top(torch.sign(_random(1))))
    other = topk.top_indices(signs.numpy(), np.arange(signs.shape[0]), b"another key")
    assert np.intersect1d(found, other).size < 0.2 * found.size


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
