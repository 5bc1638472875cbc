"""Token probes: coordinates of the residual stream that a rotation cannot move.

Each of k probes is the sum of about 3% of the token embeddings (scaled to unit RMS) with keyed signs. Under any change
of basis of the residual stream the embeddings turn with the weights, so ``<row, probe>`` stays; and since a token's
signs depend on the key and the token alone, a padded vocabulary shares all probes and a permuted one keeps them when
token strings are at hand. On trained models these k-vectors matched units of every descendant, independents .22 of
the time (design/2-weights, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Accumulates the probes of each basis over embedding row blocks."""

    def __init__(self, words: dict[str, np.ndarray], count: int, width: int) -> None:
        self._words, self._count = words, count
        self._sums = {basis: torch.zeros(width, count, dtype=torch.float64) for basis in words}
        self._row = 0

    def update(self, block: torch.Tensor, folding: Folding) -> None:
        """Take the next embedding rows, float32 (rows, d)."""
        rows = folding.writer(block)
        scale = torch.linalg.vector_norm(rows, dim=1, keepdim=True) / np.sqrt(rows.shape[1])
        inverse = torch.where(scale > 0, 1 / scale, torch.zeros_like(scale))
        for basis, words in self._words.items():
            signs = probe_signs(words[self._row : self._row + block.shape[0]], self._count)
            self._sums[basis] += rows.T @ (torch.from_numpy(signs.astype(np.float32)) * inverse)
        self._row += block.shape[0]

    @property
    def value(self) -> dict[str, torch.Tensor]:
        """Basis to float32 (d, k)."""
        return {basis: total.to(torch.float32) for basis, total in self._sums.items()}


def unit_rows(matrix: torch.Tensor) -> np.ndarray:
    """Rows scaled to unit length (zero rows stay zero), float16."""
    norms = matrix.norm(dim=1, keepdim=True)
    return (matrix / torch.where(norms > 0, norms, torch.ones_like(norms))).to(torch.float16).numpy()
