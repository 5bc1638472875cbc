"""Attention heads: power sums of matrices that mixing can only conjugate.

Any invertible M between W_v and W_o (``W_v <- M W_v, W_o <- W_o M^-1``) conjugates ``W_v W_o``; any S between queries
and keys (in-pair rotations under RoPE, anything without it) conjugates ``(W_q W_q^T)(W_k W_k^T)``. Conjugate matrices
share all power sums tr(M^k). Rotating the residual stream cancels inside both products. The power sums of a head are
divided by a scale that is itself such an invariant (max over k of |m_k|^(1/k)): a norm of M would not be, and the
root mean square eigenvalue would cost an eigendecomposition per head.
"""

from __future__ import annotations

import numpy as np
import torch

from fingerprint.fingerprint import HeadInvariants
from fingerprint.invariants.folding import Folding

ORDERS = 6


def power_sums(matrices: torch.Tensor) -> torch.Tensor:
    """m_k = tr(M^k) / n for k = 1 .. 6.

    Args:
        matrices: (batch, n, n), taken in float64.

    Returns:
        float64 (batch, 6).
    """
    m = matrices.to(torch.float64)
    squared = m @ m
    cubed = squared @ m
    traces = [
        m.diagonal(dim1=1, dim2=2).sum(1),
        squared.diagonal(dim1=1, dim2=2).sum(1),
        cubed.diagonal(dim1=1, dim2=2).sum(1),
        (squared * squared.transpose(1, 2)).sum((1, 2)),
        (cubed * squared.transpose(1, 2)).sum((1, 2)),
        (cubed * cubed.transpose(1, 2)).sum((1, 2)),
    ]
    return torch.stack(traces, dim=1) / max(1, matrices.shape[1])


def normalised(moments: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Moments over their own scale.

    Args:
        moments: float64 (heads, 6).

    Returns:
        float32 (heads, 6) within [-1, 1], and float32 (heads,) log scale (-inf for a zero head is given as -100).
    """
    order = torch.arange(1, ORDERS + 1, dtype=torch.float64)
    scale = moments.abs().pow(1 / order).amax(dim=1) if moments.numel() else moments.new_zeros(0)
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))
    log = torch.where(scale > 0, safe.log(), torch.full_like(scale, -100.0))
    scaled = moments / safe[:, None].pow(order)
    return scaled.to(torch.float32).numpy(), log.to(torch.float32).numpy()


def _prescaled(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Matrices over their largest entry, so that sixth powers neither overflow nor vanish; and that divisor."""
    peak = matrices.abs().amax(dim=(1, 2))
    safe = torch.where(peak > 0, peak, torch.ones_like(peak)).to(torch.float64)
    return matrices.to(torch.float64) / safe[:, None, None], safe


def signature(matrices: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Normalised power sums and log scale of a batch of square matrices (batch, n, n)."""
    if not matrices.numel():
        return np.zeros((0, ORDERS), dtype=np.float32), np.zeros(0, dtype=np.float32)
    scaled, divisor = _prescaled(matrices)
    moments, log = normalised(power_sums(scaled))
    return moments, np.where(log <= -100.0, -100.0, log + divisor.log().numpy()).astype(np.float32)


class ValueOutput:
    """W_v W_o of every query head, from all value rows and a stream of output row blocks.

    Args:
        value: (kv_heads * dh, d) folded value rows, float32.
        heads: Query heads.
        kv_heads: Key/value heads.
        folding: Of the norm before attention (centring is on the value side, which suffices).
    """

    def __init__(self, value: torch.Tensor, heads: int, kv_heads: int) -> None:
        self._value = value.reshape(kv_heads, -1, value.shape[1])
        self._group = heads // kv_heads
        size = self._value.shape[1]
        self._sum = torch.zeros(kv_heads, size, self._group * size)
        self._row = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows of W_o, float32 (rows, heads * dh)."""
        rows = block.shape[0]
        value = self._value[:, :, self._row : self._row + rows]
        out = block.reshape(rows, self._value.shape[0], -1).transpose(0, 1)
        self._sum.baddbmm_(value, out)
        self._row += rows

    @property
    def matrices(self) -> torch.Tensor:
        """(heads, dh, dh) in query head order."""
        kv_heads, size, _ = self._sum.shape
        return self._sum.reshape(kv_heads, size, self._group, size).transpose(1, 2).reshape(-1, size, size)


class HeadGrams:
    """W W^T per head over a stream of blocks that hold whole heads."""

    def __init__(self, folding: Folding, head_dim: int, gain: torch.Tensor | None) -> None:
        self._folding, self._size, self._gain = folding, head_dim, gain
        self._grams: list[torch.Tensor] = []
        self._buffer = torch.empty(0)

    def update(self, block: torch.Tensor) -> None:
        """Take the next heads, float32 (n * dh, d)."""
        if self._buffer.shape != block.shape:
            self._buffer = torch.empty_like(block)
        rows = self._folding.reader(block, out=self._buffer).reshape(-1, self._size, block.shape[1])
        gram = rows @ rows.transpose(1, 2)
        if self._gain is not None:
            gram = gram * self._gain[:, None] * self._gain[None, :]
        self._grams.append(gram)

    @property
    def value(self) -> torch.Tensor:
        """(heads, dh, dh)."""
        return torch.cat(self._grams) if self._grams else torch.zeros(0, self._size, self._size)


def query_key(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """(W_q W_q^T)(W_k W_k^T) per query head.

    Args:
        query: (heads, dh, dh) Gram matrices.
        key: (kv_heads, dh, dh) Gram matrices.
    """
    return query @ key.repeat_interleave(query.shape[0] // key.shape[0], dim=0)


def invariants(value_output: torch.Tensor | None, query_key_products: torch.Tensor | None) -> HeadInvariants | None:
    """Invariants of one layer's heads; None when neither product could be made."""
    if value_output is None and query_key_products is None:
        return None
    empty = torch.zeros(0, 1, 1)
    vo, vo_scale = signature(empty if value_output is None else value_output)
    qk, qk_scale = signature(empty if query_key_products is None else query_key_products)
    return HeadInvariants(vo, vo_scale, qk, qk_scale)
