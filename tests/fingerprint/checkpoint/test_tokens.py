"""Token strings by id, from every tokenizer file we read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fingerprint.checkpoint.limits import DEFAULT_LIMITS
from fingerprint.checkpoint.tokens import token_strings
from fingerprint.errors import CheckpointError, CheckpointTooLarge


def written(folder: Path, name: str, content: object) -> tuple[str, ...] | None:
    """The table read from one file."""
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return token_strings(folder, DEFAULT_LIMITS)


def test_tokenizer_json_with_added_tokens_and_holes(tmp_path: Path) -> None:
    content = {"model": {"vocab": {"b": 1, "a": 0}}, "added_tokens": [{"id": 3, "content": "<end>"}]}
    assert written(tmp_path, "tokenizer.json", content) == ("a", "b", "", "<end>")


def test_unigram_pieces_stand_in_order(tmp_path: Path) -> None:
    assert written(tmp_path, "tokenizer.json", {"model": {"vocab": [["a", -1.5], ["b", -2.0]]}}) == ("a", "b")


def test_vocab_txt_and_vocab_json(tmp_path: Path) -> None:
    assert written(tmp_path, "vocab.txt", "[PAD]\nthe\n") == ("[PAD]", "the")
    assert written(tmp_path, "vocab.json", {"x": 1, "y": 0}) == ("y", "x")


def test_no_tokenizer_is_none(tmp_path: Path) -> None:
    assert token_strings(tmp_path, DEFAULT_LIMITS) is None


@pytest.mark.parametrize(
    "content",
    [
        {"model": {"vocab": {"a": 2**60}}},
        {"model": {"vocab": {"a": -1}}},
        {"model": {"vocab": {"a": True}}},
        {"model": {"vocab": {"a": 1.0}}},
        {"model": {}},
        {"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1}]},
        {"model": {"vocab": [[1, 2]]}},
        '{"model": {"vocab": {"a": 0, "a": 1}}}',
        "[]",
    ],
)
def test_tokenizers_that_lie_are_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        written(tmp_path, "tokenizer.json", content)


def test_a_huge_id_allocates_nothing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointTooLarge, match="token id"):
        written(tmp_path, "tokenizer.json", {"model": {"vocab": {"a": 10**12}}})
