"""Attention heads: power sums of matrices that mixing can only conjugate.

Any invertible M between W_v and W_o (``W_v <- M W_v, W_o <- W_o M^-1``) conjugates ``W_v W_o``; any S between queries
and keys (``W_k <- S W_k, W_q <- S^-T W_q``: in-pair rotations and scales under RoPE, anything without it) conjugates
``W_k W_q^T``. Conjugate matrices share all power sums tr(M^k). Rotating the residual stream cancels inside both
products. The power sums of a head are divided by a scale that is itself such an invariant (max over k of
|m_k|^(1/k)): a norm of M would not be, and the root mean square eigenvalue would cost an eigendecomposition per head.
"""

from __future__ import annotations

import numpy as np
import torch

from fingerprint.fingerprint import HeadInvariants

ORDERS = 6


def power_sums(matrices: torch.Tensor) -> torch.Tensor:
    """m_k = tr(M^k) / n for k = 1 .. 6.

    Args:
        matrices: float (batch, n, n); entries of about one.

    Returns:
        float64 (batch, 6).
    """
    squared = matrices @ matrices
    cubed = squared @ matrices
    transposed = squared.transpose(1, 2)
    traces = [
        matrices.diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64),
        squared.diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64),
        cubed.diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64),
        (squared * transposed).sum((1, 2), dtype=torch.float64),
        (cubed * transposed).sum((1, 2), dtype=torch.float64),
        (cubed * cubed.transpose(1, 2)).sum((1, 2), dtype=torch.float64),
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
    """Matrices over their root mean square row norm, so that sixth powers neither overflow nor vanish; and that."""
    size = torch.linalg.vector_norm(matrices, dim=(1, 2)) / matrices.shape[1] ** 0.5
    safe = torch.where(size > 0, size, torch.ones_like(size))
    return matrices / safe[:, None, None], safe.to(torch.float64)


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


class QueryKey:
    """W_k W_q^T of every query head, from all key rows and a stream of query blocks that hold whole heads.

    Args:
        key: (kv_heads * dh, d) key rows, float32, folded twice: once for each side of the product.
        heads: Query heads.
        kv_heads: Key/value heads.
    """

    def __init__(self, key: torch.Tensor, heads: int, kv_heads: int) -> None:
        self._key = key.reshape(kv_heads, -1, key.shape[1])
        self._group = heads // kv_heads
        self._products: list[torch.Tensor] = []
        self._head = 0

    def update(self, block: torch.Tensor) -> None:
        """Take the next heads, float32 (n * dh, d)."""
        queries = block.reshape(-1, self._key.shape[1], block.shape[1])
        for query in queries:
            self._products.append(torch.mm(self._key[self._head // self._group], query.T))
            self._head += 1

    @property
    def matrices(self) -> torch.Tensor:
        """(heads, dh, dh) in query head order."""
        return torch.stack(self._products)


def invariants(value_output: torch.Tensor | None, query_key_products: torch.Tensor | None) -> HeadInvariants | None:
    """Invariants of one layer's heads; None when neither product could be made."""
    if value_output is None and query_key_products is None:
        return None
    empty = torch.zeros(0, 1, 1)
    vo, vo_scale = signature(empty if value_output is None else value_output)
    qk, qk_scale = signature(empty if query_key_products is None else query_key_products)
    return HeadInvariants(vo, vo_scale, qk, qk_scale)
