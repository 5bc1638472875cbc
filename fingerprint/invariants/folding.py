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

from fingerprint.architecture.interface import Layout, Norm, Role, Slot
from fingerprint.architecture.reading import read_blocks
from fingerprint.checkpoint.interface import Checkpoint

NORM_BEFORE = {
    Role.QUERY: Role.NORM_ATTENTION, Role.KEY: Role.NORM_ATTENTION, Role.VALUE: Role.NORM_ATTENTION,
    Role.GATE: Role.NORM_MLP, Role.UP: Role.NORM_MLP, Role.ROUTER: Role.NORM_MLP, Role.SHARED_GATE: Role.NORM_MLP,
    Role.HEAD: Role.FINAL_NORM,
}  # fmt: skip
"""The norm whose gain folds into a reader."""


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


def gains(checkpoint: Checkpoint, layout: Layout) -> dict[Slot, torch.Tensor]:
    """Gain of the norm before every matrix that reads the stream through one, float32 (d,).

    Args:
        checkpoint: Where the norms are.
        layout: What the tensors are.
    """
    found: dict[Slot, torch.Tensor] = {}
    read: dict[Slot, np.ndarray] = {}
    for slot, view in layout.slots.items():
        norm = Slot(NORM_BEFORE[slot.role], slot.layer) if slot.role in NORM_BEFORE else None
        if norm is None or norm not in layout.slots or len(view.shape) != 2:
            continue
        if norm not in read:
            parts = [b.to(torch.float32).reshape(-1) for b in read_blocks(checkpoint, layout.slots[norm], 1 << 20)]
            joined = torch.cat(parts) if parts else torch.zeros(0)
            read[norm] = torch.nan_to_num(joined, nan=0.0, posinf=0.0, neginf=0.0).numpy()
        gain = folding(layout, read[norm], view.shape[1]).gain
        if gain is not None:
            found[slot] = gain
    return found
