"""A byte-level BPE of a chosen size, trained on the corpus, so that small models spend their parameters on layers."""

from __future__ import annotations

import os
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.gauntlet import corpus

END = "<|end|>"
"""Id 0: end of text, and the only special token."""


def train(vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE of ``vocabulary`` entries over an equal share of every domain."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((corpus.text(d)[:250_000] for d in sorted(corpus.DOMAINS)), trainer)
    return tokenizer


def at(path: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer stored at ``path``, trained and stored there first when absent."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        train(vocabulary).save(str(draft))
        os.replace(draft, path)
    return Tokenizer.from_file(str(path))
