"""Embeddings: angles between tokens, which only training moves.

A residual rotation, a scale, or new gains leave cosines between token rows as they are. A few dozen tokens are chosen
by the smallest keyed hash of the token, so that the same tokens are chosen in a padded or permuted vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch

from fingerprint.fingerprint import TokenCosines
from fingerprint.invariants.folding import Folding
from fingerprint.sketch import keyed

TOKENS = 64
_CHOICE = 1 << 20
"""Salt of the choosing hash; far from the salts of the probe signs."""


def choose(words: np.ndarray) -> np.ndarray:
    """Ids of the TOKENS tokens with the smallest choosing hash, ordered by it, int64.

    Of equal tokens (duplicates in a vocabulary) the first is taken.
    """
    ranks = keyed.mix(words, _CHOICE)
    _, first = np.unique(ranks, return_index=True)
    return np.asarray(first[:TOKENS], dtype=np.int64)


class TokenRows:
    """Collects chosen rows from a stream of embedding (or head) row blocks."""

    def __init__(self, ids: np.ndarray, width: int) -> None:
        self._ids = ids
        self._rows = torch.zeros(ids.size, width)
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows, float32 (rows, d)."""
        here = np.flatnonzero((self._ids >= self._row) & (self._ids < self._row + block.shape[0]))
        if here.size:
            self._rows[torch.from_numpy(here)] = block[torch.from_numpy(self._ids[here] - self._row)]
        self._row += block.shape[0]

    @property
    def value(self) -> torch.Tensor:
        """(T, d) in the order of the ids."""
        return self._rows


def _centred(rows: torch.Tensor) -> torch.Tensor:
    """Head rows without their mean: one vector added to all of them changes no probability."""
    return rows - rows.mean(dim=0, keepdim=True)


def cosines(rows: torch.Tensor) -> np.ndarray:
    """Cosines between all pairs of rows, float16 (T, T); zero rows give zeros."""
    norms = rows.norm(dim=1, keepdim=True)
    unit = (rows / torch.where(norms > 0, norms, torch.ones_like(norms))).to(torch.float64)
    return (unit @ unit.T).to(torch.float16).numpy()


def invariants(
    ids: np.ndarray,
    words: np.ndarray,
    embed: torch.Tensor,
    head: torch.Tensor | None,
    *,
    inner: Folding,
    final: Folding,
) -> TokenCosines:
    """Cosines of the chosen tokens.

    Args:
        ids: Chosen ids.
        words: Secret words of the whole vocabulary in this basis.
        embed: float32 (T, d) embedding rows.
        head: float32 (T, d) head rows, None when tied or absent.
        inner: Folding of embedding rows (only its centring is used).
        final: Folding of the norm before the head.
    """
    folded = None if head is None else cosines(_centred(final.reader(head)))
    return TokenCosines(ids, keyed.mix(words[ids], _CHOICE), cosines(inner.writer(embed)), folded)
