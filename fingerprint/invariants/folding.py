"""Folding: the basis in which readers and writers of the residual stream are compared.

A pre-norm reader sees ``W diag(g) x / rms(x)``, so only ``W diag(g)`` has meaning: gains are folded in before any
invariant is taken, and gains put back by an adversary fold out again. LayerNorm also removes the mean of its input,
so readers, writers and embeddings are centred over the residual axis (absorbing the centring). Post-norm models
(BERT) apply the gain to the stream itself; nothing folds there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fingerprint.architecture.interface import Layout, Norm


@dataclass(frozen=True)
class Folding:
    """How one layer's readers are folded.

    Attributes:
        gain: float32 (d,), or None for no gain.
        centred: Whether the residual axis is centred.
    """

    gain: torch.Tensor | None
    centred: bool

    def reader(self, rows: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
        """Rows (n, d) of a matrix that reads the stream, folded; the rows themselves where nothing folds.

        Args:
            rows: float32 (n, d).
            out: Where to put the result, to allocate nothing.
        """
        folded = rows if self.gain is None else torch.mul(rows, self.gain, out=out)
        return torch.sub(folded, folded.mean(dim=-1, keepdim=True), out=out) if self.centred else folded

    def both(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows folded for both sides of a product ``W_1 F F^T W_2^T``, so that the other side stays as it is stored."""
        folded = self.reader(rows)
        return folded if self.gain is None else folded * self.gain

    def writer(self, columns: torch.Tensor) -> torch.Tensor:
        """Rows (n, d) of a transposed matrix that writes to the stream, or embedding rows."""
        return columns - columns.mean(dim=-1, keepdim=True) if self.centred else columns


def folding(layout: Layout, gain: np.ndarray | None, width: int) -> Folding:
    """The folding behind a norm.

    Args:
        layout: Kind of norm and where it stands.
        gain: The norm's stored weight (d,), None where the model has none.
        width: d; a gain of another length is ignored.
    """
    if not layout.pre_norm:
        return Folding(None, False)
    centred = layout.norm is Norm.LAYER
    if gain is None or gain.shape != (width,) or layout.norm is Norm.NONE:
        return Folding(None, centred)
    weight = gain.astype(np.float32) + (1.0 if layout.norm is Norm.RMS_OFFSET else 0.0)
    return Folding(torch.from_numpy(weight.astype(np.float32)), centred)
