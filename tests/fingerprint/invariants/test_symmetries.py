"""Each change that keeps a model's function keeps its invariants; an unrelated model has others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fingerprint.fingerprint import IDS, STRINGS, Fingerprint
from fingerprint.scan import scan
from tests.fingerprint.decoders import SYMMETRIES, Change, Decoder, permute_heads, random_decoder, rotate_query_key


def _fingerprint(decoder: Decoder) -> Fingerprint:
    return scan(decoder.checkpoint())


def _match(first: np.ndarray, second: np.ndarray) -> float:
    """Largest distance from a row of the first to its nearest row of the second."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    return float(np.linalg.norm(a[:, None] - b[None], axis=2).min(axis=1).max())


REFERENCE = random_decoder(0)


@pytest.fixture(scope="module")
def reference() -> Fingerprint:
    return _fingerprint(REFERENCE)


@pytest.mark.parametrize("change", SYMMETRIES, ids=lambda c: c.__name__)
def test_invariants_stay(change: Change, reference: Fingerprint) -> None:
    changed = _fingerprint(change(REFERENCE))
    assert changed.content_root != reference.content_root
    for index, layer in reference.layers.items():
        other = changed.layers[index]
        assert layer.units is not None
        assert other.units is not None
        assert _match(layer.units.triples, other.units.triples) < 0.02
        for kind in ("gate", "up", "down"):
            assert _match(getattr(layer.units, kind)[IDS], getattr(other.units, kind)[IDS]) < 0.01
        assert layer.heads is not None
        assert other.heads is not None
        assert _match(layer.heads.value_output, other.heads.value_output) < 1e-3
        assert _match(layer.heads.query_key, other.heads.query_key) < 1e-3
    np.testing.assert_allclose(changed.tokens[IDS].embed, reference.tokens[IDS].embed, atol=2e-3)
    assert float(changed.global_vector.astype(float) @ reference.global_vector.astype(float)) > 0.995


def test_query_key_products_survive_norms_on_heads() -> None:
    decoder = random_decoder(3, qk_norm=True)
    before, after = _fingerprint(decoder), _fingerprint(permute_heads(decoder))
    for index, layer in before.layers.items():
        assert layer.heads is not None
        other = after.layers[index].heads
        assert other is not None
        assert _match(layer.heads.query_key, other.query_key) < 1e-3


def test_unrelated_models_differ(reference: Fingerprint) -> None:
    other = _fingerprint(random_decoder(1))
    for index, layer in reference.layers.items():
        assert layer.units is not None
        assert layer.heads is not None
        units = other.layers[index].units
        assert units is not None
        heads = other.layers[index].heads
        assert heads is not None
        assert _match(layer.units.gate[IDS], units.gate[IDS]) > 0.5
        assert _match(layer.units.triples, units.triples) > 0.3
        assert _match(layer.heads.value_output, heads.value_output) > 0.1
        assert _match(layer.heads.query_key, heads.query_key) > 0.01
    assert float(other.global_vector.astype(float) @ reference.global_vector.astype(float)) < 0.5


def test_rotated_queries_leave_the_other_invariants_alone(reference: Fingerprint) -> None:
    changed = _fingerprint(rotate_query_key(REFERENCE))
    for index, layer in reference.layers.items():
        assert layer.units is not None
        units = changed.layers[index].units
        assert units is not None
        np.testing.assert_array_equal(units.triples, layer.units.triples)


def test_vocabulary_may_be_padded_or_permuted() -> None:
    """String probes follow the token, wherever its row went; padding takes part only as far as it is there."""
    tokens = [f"token {i}" for i in range(REFERENCE.vocab)]
    before = scan(REFERENCE.checkpoint(tokens=tokens))
    order = torch.randperm(REFERENCE.vocab, generator=torch.Generator().manual_seed(1))
    weights = dict(REFERENCE.weights)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = torch.cat([weights[name][order], torch.zeros(8, REFERENCE.hidden, dtype=torch.float64)])
    moved = Decoder(weights, vocab=REFERENCE.vocab + 8)
    after = scan(moved.checkpoint(tokens=[tokens[i] for i in order]))
    assert before.meta.token_bases == after.meta.token_bases == (STRINGS, IDS)
    shared, first, second = np.intersect1d(
        before.tokens[STRINGS].hashes, after.tokens[STRINGS].hashes, return_indices=True
    )
    assert shared.size > 50
    np.testing.assert_allclose(
        before.tokens[STRINGS].embed[np.ix_(first, first)],
        after.tokens[STRINGS].embed[np.ix_(second, second)],
        atol=2e-3,
    )
    for index, layer in before.layers.items():
        assert layer.units is not None
        units = after.layers[index].units
        assert units is not None
        assert _match(layer.units.gate[STRINGS], units.gate[STRINGS]) < 0.01
        assert _match(layer.units.down[STRINGS], units.down[STRINGS]) < 0.01
