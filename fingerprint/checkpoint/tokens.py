"""Token strings by id: what ties an embedding row to a meaning, so that a permuted vocabulary can be undone.

Reads ``tokenizer.json`` (tokenizers library; BPE, WordPiece, WordLevel and Unigram), ``vocab.json`` (GPT-2) or
``vocab.txt`` (BERT). The files are the competitor's, so ids are bounded before a table is made for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fingerprint.checkpoint.folder import confined
from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.memory import read_bounded
from fingerprint.checkpoint.strict_json import parse_object
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint


def token_strings(folder: Path, limits: Limits) -> tuple[str, ...] | None:
    """Token string by id; ids nobody names are empty strings.

    Args:
        folder: Where the weights lie.
        limits: Bounds on bytes and ids.

    Returns:
        The table, or None when the folder has no tokenizer we read.

    Raises:
        CheckpointError: The file is malformed or over a bound.
    """
    readers = (("tokenizer.json", _from_tokenizer), ("vocab.json", _from_vocab_json), ("vocab.txt", _from_lines))
    for name, reader in readers:
        if (folder / name).is_file():
            data = read_bounded(confined(folder, name), limits.tokenizer_bytes)
            if len(data) > limits.tokenizer_bytes:
                raise CheckpointTooLarge(
                    "tokenizer too long", where=name, got=f"> {limits.tokenizer_bytes} bytes", expected="less"
                )
            return reader(data, name, limits)
    return None


def _from_tokenizer(data: bytes, where: str, limits: Limits) -> tuple[str, ...]:
    content = parse_object(data, where=where, limits=_wider(limits))
    model = content.get("model")
    vocabulary = model.get("vocab") if type(model) is dict else None
    if type(vocabulary) is dict:
        pairs: list[tuple[Any, Any]] = list(vocabulary.items())
    elif type(vocabulary) is list:  # Unigram: [[piece, score], ...] in order of id
        pairs = [(item[0], i) for i, item in enumerate(vocabulary) if type(item) is list and item]
    else:
        raise MalformedCheckpoint("no vocabulary", where=f"{where}:model.vocab", got=type(vocabulary).__name__)
    added = content.get("added_tokens") or []
    extra = [(item.get("content"), item.get("id")) for item in added if type(item) is dict]
    return _table([*pairs, *extra], where, limits)


def _wider(limits: Limits) -> Limits:
    """Bounds for a tokenizer, which is larger than any other JSON here and only read when asked for."""
    return replace(
        limits,
        json_bytes=limits.tokenizer_bytes,
        json_commas=limits.tokenizer_values,
        json_containers=limits.tokenizer_values,
    )


def _from_vocab_json(data: bytes, where: str, limits: Limits) -> tuple[str, ...]:
    content = parse_object(data, where=where, limits=_wider(limits))
    return _table(content.items(), where, limits)


def _from_lines(data: bytes, where: str, limits: Limits) -> tuple[str, ...]:
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint("not UTF-8", where=where, got=str(error), expected="one token a line") from None
    if lines and not lines[-1]:
        lines.pop()
    return _table(((line.rstrip("\r"), i) for i, line in enumerate(lines)), where, limits)


def _table(pairs: Iterable[tuple[Any, Any]], where: str, limits: Limits) -> tuple[str, ...]:
    """Pairs of (token, id) as a table; a later pair wins, as an added token does over the vocabulary."""
    found: dict[int, str] = {}
    for token, identity in pairs:
        if type(token) is not str or type(identity) is not int or identity < 0:
            raise MalformedCheckpoint("bad token", where=where, got=(token, identity), expected="a string and its id")
        if identity >= limits.vocabulary:
            raise CheckpointTooLarge("token id too large", where=where, got=identity, expected=f"< {limits.vocabulary}")
        found[identity] = token
    return tuple(found.get(i, "") for i in range(max(found, default=-1) + 1))
