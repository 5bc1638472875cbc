"""Text to train on, found with any CPython: no network, no data set to ship, and the same choice every time.

Five domains that differ enough for models trained on them to differ: ``english`` (the language reference's help
topics), ``code`` (top-level modules of the standard library), ``packages`` (source inside its packages),
``unicode`` (names of code points) and ``lists`` (generated small tasks with one right answer, which is what a
programmatic reward can judge). The text depends on the Python version alone; ``digest`` records which it was.
"""

from __future__ import annotations

import hashlib
import random
import sys
import sysconfig
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

DOMAIN_CHARACTERS = 700_000
"""Cap on the text of one domain: a few passes for the longest training, and seconds to tokenise."""
TASK_LINES = 24_000
PACKAGES = ("asyncio", "email", "http", "importlib", "json", "logging", "multiprocessing", "unittest", "xml")


@dataclass(frozen=True)
class Task:
    """A list task: everything up to and including ``=>``, and its one right answer with its leading space."""

    prompt: str
    answer: str


def _english() -> str:
    from pydoc_data import topics

    return "\n\n".join(text for _, text in sorted(topics.topics.items()))


def _sources(paths: list[Path]) -> str:
    parts: list[str] = []
    size = 0
    for path in sorted(paths):
        text = path.read_text(encoding="utf-8", errors="ignore")
        parts.append(text)
        size += len(text)
        if size > DOMAIN_CHARACTERS:
            break
    return "\n\n".join(parts)


def _library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def _code() -> str:
    return _sources([p for p in _library().glob("*.py") if p.stat().st_size < 60_000])


def _packages() -> str:
    return _sources([p for name in PACKAGES for p in (_library() / name).glob("*.py")])


def _unicode() -> str:
    lines = []
    for point in range(0x20, sys.maxunicode):
        name = unicodedata.name(chr(point), "")
        if name and not name.startswith(("CJK", "HANGUL SYLLABLE", "TANGUT", "NUSHU", "KHITAN")):
            lines.append(f"U+{point:04X} {unicodedata.category(chr(point))} {name.lower()}")
    random.Random(5).shuffle(lines)
    return "\n".join(lines)


def tasks(count: int, seed: int) -> list[Task]:
    """``count`` list tasks drawn with ``seed``: sort, reverse, sum, length, maximum, first and doubled."""
    rules: dict[str, Callable[[list[int]], object]] = {
        "sort": sorted,
        "reverse": lambda xs: xs[::-1],
        "sum": sum,
        "length": len,
        "max": max,
        "first": lambda xs: xs[0],
        "double": lambda xs: [2 * x for x in xs],
    }
    draw = random.Random(seed)
    out = []
    for _ in range(count):
        rule = draw.choice(sorted(rules))
        values = [draw.randrange(20) for _ in range(draw.randint(2, 5))]
        out.append(Task(f"{rule} {values} =>", f" {rules[rule](values)}"))
    return out


def _lists() -> str:
    return "\n".join(task.prompt + task.answer for task in tasks(TASK_LINES, seed=1))


DOMAINS: Mapping[str, Callable[[], str]] = {
    "english": _english,
    "code": _code,
    "packages": _packages,
    "unicode": _unicode,
    "lists": _lists,
}


@cache
def text(domain: str) -> str:
    """The whole text of a domain, capped at ``DOMAIN_CHARACTERS``."""
    return DOMAINS[domain]()[:DOMAIN_CHARACTERS]


@cache
def digest() -> str:
    """SHA-256 over all domains: two caches with equal digests were trained on equal text."""
    state = hashlib.sha256()
    for domain in sorted(DOMAINS):
        state.update(domain.encode() + b"|" + text(domain).encode() + b"|")
    return state.hexdigest()


class TokenStream:
    """Domains as token arrays of one tokenizer, from which training examples are drawn."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[str, torch.Tensor] = {}

    def tokens(self, domain: str) -> torch.Tensor:
        """All tokens of a domain, int64 (n,)."""
        if domain not in self._tokens:
            ids = self._tokenizer.encode(text(domain)).ids
            self._tokens[domain] = torch.tensor(ids, dtype=torch.int64)
        return self._tokens[domain]

    def examples(
        self, mix: Mapping[str, float], count: int, length: int, *, data_seed: int, order_seed: int
    ) -> torch.Tensor:
        """Draw ``count`` examples (count, length) int64; ``data_seed`` chooses which, ``order_seed`` only their order.

        Args:
            mix: Domain to share of the examples.
            count: Number of examples.
            length: Tokens per example.
            data_seed: Equal seeds give the same set of examples.
            order_seed: Equal seeds (with equal data) give the same sequence.
        """
        choose = np.random.default_rng(data_seed)
        shares = np.array([mix[d] for d in sorted(mix)], dtype=float)
        domains = choose.choice(len(shares), size=count, p=shares / shares.sum())
        rows = []
        for index in domains:
            stream = self.tokens(sorted(mix)[int(index)])
            start = int(choose.integers(0, len(stream) - length))
            rows.append(stream[start : start + length])
        order = np.random.default_rng([order_seed, 7]).permutation(count)
        return torch.stack(rows)[torch.from_numpy(order)]
