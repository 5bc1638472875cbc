"""Linear sketches: unbiased, nested, linear to 1e-5, and orthonormal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.sketch import linear
from fingerprint.sketch.keyed import DEFAULT_KEY
from fingerprint.sketch.linear import Projection, common, shrink, sketch_matrix, sketch_vector

SHAPES = [(1, 1), (1, 40), (40, 1), (3, 5), (48, 48), (128, 352), (1027, 300)]


def _random(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES)
def test_inner_products_are_unbiased(shape: tuple[int, int]) -> None:
    first = _random(shape, 0)
    second = first + 0.5 * _random(shape, 1)
    ratios = []
    for number in range(80):
        projection = Projection(b"key %d" % number, 16)
        a, b = (sketch_matrix(m, projection).astype(np.float64) for m in (first, second))
        ratios.append((a * b).sum() / float((first * second).sum()))
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios) / np.sqrt(80) + 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_a_smaller_sketch_is_part_of_a_larger_one(shape: tuple[int, int]) -> None:
    matrix = _random(shape, 0)
    large, small = (sketch_matrix(matrix, Projection(DEFAULT_KEY, side)) for side in (48, 16))
    np.testing.assert_allclose(shrink(large, (16, 16)), small, atol=2e-6 * float(np.abs(small).max()))
    first, second = common(large, small)
    np.testing.assert_allclose(first, second, atol=2e-6 * float(np.abs(small).max()))


@pytest.mark.parametrize("shape", [(128, 352), (600, 900), (2000, 64)])
def test_a_delta_of_one_in_a_hundred_thousand_survives(shape: tuple[int, int]) -> None:
    projection = Projection(DEFAULT_KEY, 32)
    matrix = _random(shape, 0)
    changed = matrix + 1e-5 * _random(shape, 1)
    seen = sketch_matrix(changed, projection).astype(np.float64) - sketch_matrix(matrix, projection)
    true = sketch_matrix((changed.double() - matrix.double()).float(), projection)
    assert np.linalg.norm(seen - true) < 0.05 * np.linalg.norm(true)


def test_small_matrices_lose_nothing() -> None:
    first, second = _random((7, 12), 0), _random((7, 12), 1)
    projection = Projection(DEFAULT_KEY, 20)
    a, b = sketch_matrix(first, projection), sketch_matrix(second, projection)
    assert float((a * b).sum()) == pytest.approx(float((first * second).sum()), rel=1e-5)


def test_drawn_noise_stays_drawn() -> None:
    """The comparison tests sketched deltas for coherence, so correlated projections would accuse noise of learning."""
    projection = Projection(DEFAULT_KEY, 24)
    sketches = np.stack([sketch_matrix(_random((64, 96), seed), projection) for seed in range(200)])
    flat = sketches.reshape(200, -1)
    correlation = np.corrcoef(flat[:, :60].T)[np.triu_indices(60, 1)]
    assert abs(float(np.mean(correlation**2)) * 200 - 1) < 0.15


@pytest.mark.parametrize("height", [300, 1024, 1029])
def test_block_size_does_not_matter(height: int) -> None:
    matrix = _random((height, 70), 0)
    projection = Projection(DEFAULT_KEY, 16)
    whole = sketch_matrix(matrix, projection, rows=height)
    for rows in (1, 7, 64, 100):
        np.testing.assert_allclose(sketch_matrix(matrix, projection, rows=rows), whole, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("height", [1024, 1029])
def test_folded_projections_are_orthonormal(height: int) -> None:
    """A A^T = I up to the scale, the last and shorter group included."""
    projection = Projection(DEFAULT_KEY, 16)
    identity = torch.eye(height)
    frame = np.stack([_left(identity[:, i : i + 1], projection) for i in range(height)], axis=1)
    np.testing.assert_allclose(frame @ frame.T, np.eye(16) * height / 16, atol=1e-3 * height / 16)


def _left(column: torch.Tensor, projection: Projection) -> np.ndarray:
    """A applied to one column: the sketch of an (m, 1) matrix has one column that is not zero."""
    return sketch_matrix(column, projection)[:, 0].astype(np.float64)


def test_keys_draw_other_signs() -> None:
    matrix = _random((300, 70), 0)
    first, second = (sketch_matrix(matrix, Projection(key, 16)) for key in (b"one", b"two"))
    cosine = float((first * second).sum() / np.linalg.norm(first) / np.linalg.norm(second))
    assert abs(cosine) < 0.3


def test_rows_longer_than_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = _random((5, 300), 0)
    whole = sketch_matrix(matrix, Projection(DEFAULT_KEY, 16))
    monkeypatch.setattr(linear, "CHUNK", 64)
    monkeypatch.setattr(linear, "CACHED", 128)
    np.testing.assert_allclose(sketch_matrix(matrix, Projection(DEFAULT_KEY, 16)), whole, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.integers(0, 5))
def test_vectors(size: int, seed: int) -> None:
    vector = _random((size,), seed).numpy()
    sketch = sketch_vector(vector, Projection(DEFAULT_KEY, 64))
    twice = sketch_vector(2 * vector, Projection(DEFAULT_KEY, 64))
    np.testing.assert_allclose(twice, 2 * sketch, rtol=1e-5, atol=1e-6)
    if size <= 32:
        assert float((sketch**2).sum()) == pytest.approx(float((vector**2).sum()), rel=1e-4)


def test_a_wide_and_a_square_sketch_share_a_block() -> None:
    matrix = _random((300, 200), 0)
    tall, square = (
        sketch_matrix(matrix, Projection(DEFAULT_KEY, 32, 16)),
        sketch_matrix(matrix, Projection(DEFAULT_KEY, 24)),
    )
    assert tall.shape == (32, 16)
    first, second = common(tall, square)
    assert first.shape == (24, 16)
    np.testing.assert_allclose(first, second, atol=2e-6 * float(np.abs(square).max()))


def test_budget() -> None:
    assert linear.size_for(226, 480_000) == 20
    assert linear.size_for(1, 480_000) == 64
    assert linear.size_for(10**6, 480_000) == linear.SIZES[0]
