"""Keyed randomness: words depend on key, domain and index alone."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.sketch import keyed


def test_words_are_addressed_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "CHUNK", 16)
    whole = keyed.words(b"k", "d", 0, 50)
    assert whole.shape == (50,)
    np.testing.assert_array_equal(keyed.words(b"k", "d", 13, 37), whole[13:37])
    np.testing.assert_array_equal(keyed.words(b"k", "d", 16, 32), whole[16:32])
    assert keyed.words(b"k", "d", 5, 5).size == 0
    assert not np.array_equal(keyed.words(b"k", "e", 0, 50), whole)
    assert not np.array_equal(keyed.words(b"l", "d", 0, 50), whole)


def test_words_never_change() -> None:
    """Golden: another first word means that no stored fingerprint compares any more."""
    assert int(keyed.words(keyed.DEFAULT_KEY, "linear/row", 0, 1)[0]) == 6013329058699057981
    assert keyed.key_id(keyed.DEFAULT_KEY) == "4d6472aa"


def test_signs_are_balanced_and_nested() -> None:
    words = keyed.words(b"k", "d", 0, 4096)
    signs = keyed.signs(words, 64)
    assert set(np.unique(signs)) == {-1, 1}
    assert np.abs(signs.mean(axis=0)).max() < 0.08
    np.testing.assert_array_equal(keyed.signs(words, 10), signs[:, :10])


def test_sample_is_sorted_and_content_free() -> None:
    chosen = keyed.sample(b"k", "d", 1000, 10)
    assert chosen.size == 10
    assert np.all(np.diff(chosen) > 0)
    np.testing.assert_array_equal(keyed.sample(b"k", "d", 5, 10), np.arange(5))


def test_equal_strings_get_equal_words() -> None:
    words = keyed.string_words(b"k", "d", ("a", "b", "a", "\ud800"))
    assert words[0] == words[2] != words[1]
