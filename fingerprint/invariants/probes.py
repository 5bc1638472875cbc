"""Token probes: coordinates of the residual stream that a rotation cannot move.

Each of k probes is the sum of about 3% of the token embeddings with keyed signs. Under any change of basis of the
residual stream the embeddings turn with the weights, so ``<row, probe>`` stays; and since a token's signs depend on the
key and the token alone, a padded vocabulary shares all probes and a permuted one keeps them when token strings are at
hand. On trained models these k-vectors matched units of every descendant, independents .22 of the time
(design/2-weights, section 4). Embedding rows are taken as they are: scaling each to unit length would turn noise on
them into a systematic change, since rows of rare tokens are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fingerprint.fingerprint import IDS, STRINGS
from fingerprint.invariants.folding import Folding
from fingerprint.sketch import keyed

DENSITY_BITS = 5
"""A token takes part in a probe with probability 2^-5."""


def token_words(key: bytes, vocabulary: int, strings: Sequence[str] | None) -> dict[str, np.ndarray]:
    """One secret word per token and basis, strings first.

    Args:
        key: Sketch key.
        vocabulary: Rows of the embedding.
        strings: Token strings; rows beyond them (padding) draw from their id.

    Returns:
        Basis to uint64 (vocabulary,).
    """
    by_id = keyed.words(key, "token/id", 0, vocabulary)
    bases: dict[str, np.ndarray] = {}
    if strings:
        known = keyed.string_words(key, "token/string", tuple(strings[:vocabulary]))
        padding = keyed.words(key, "token/padding", 0, vocabulary)[known.shape[0] :]
        bases[STRINGS] = np.concatenate([known, padding])
    bases[IDS] = by_id
    return bases


def probe_signs(words: np.ndarray, count: int) -> np.ndarray:
    """Sparse signs of tokens in ``count`` probes; fewer probes are the leading ones of more.

    Args:
        words: uint64 (n,).
        count: Number of probes, a multiple of 8.

    Returns:
        int8 (n, count) of -1, 0, 1.
    """
    codes = np.stack([keyed.mix(words, salt) for salt in range(count // 8)], axis=1)
    octets = codes.astype("<u8").view(np.uint8).reshape(words.shape[0], count)
    taking_part = (octets >> np.uint8(8 - DENSITY_BITS)) == 0
    return np.where(taking_part, 1 - 2 * (octets & 1).astype(np.int8), np.int8(0)).astype(np.int8)


class Probes:
    """Accumulates the probes of each basis over embedding row blocks.

    Args:
        words: Basis to secret words, one a token.
        count: Number of probes.
        width: d.
        real: Basis to the number of leading rows that are tokens; rows beyond are padding and take no part.
    """

    def __init__(self, words: Mapping[str, np.ndarray], count: int, width: int, real: Mapping[str, int]) -> None:
        self._words, self._count, self._real = words, count, real
        self._sums = {basis: torch.zeros(width, count, dtype=torch.float64) for basis in words}
        self._row = 0

    def update(self, block: torch.Tensor, folding: Folding) -> None:
        """Take the next embedding rows, float32 (rows, d)."""
        rows = folding.writer(block)
        for basis, words in self._words.items():
            stop = min(self._row + block.shape[0], self._real.get(basis, words.shape[0]))
            if stop > self._row:
                signs = torch.from_numpy(probe_signs(words[self._row : stop], self._count).astype(np.float32))
                self._sums[basis] += rows[: stop - self._row].T @ signs
        self._row += block.shape[0]

    @property
    def value(self) -> dict[str, torch.Tensor]:
        """Basis to float32 (d, k), scaled to columns of unit length on average."""
        return {basis: _scaled(total).to(torch.float32) for basis, total in self._sums.items()}


def _scaled(total: torch.Tensor) -> torch.Tensor:
    size = float(torch.linalg.matrix_norm(total)) / np.sqrt(max(1, total.shape[1]))
    return total / size if size > 0 else total
