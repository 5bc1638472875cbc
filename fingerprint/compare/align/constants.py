"""Tensors that say nothing about origin, because a formula gives them: ramps, ones, sinusoids, filter banks.

An STFT basis or a table of sinusoidal positions is equal in models that have nothing else in common (2-weights
section 6), so equality there is no evidence.
"""

from __future__ import annotations

import torch

_FEW = 8
_CONCENTRATED = 0.9
_LINES = 4
_SMOOTH = 1e-3
_LEAST = 16
_GLANCE = 65536
_GLANCE_ROWS = 64


def formulaic(x: torch.Tensor) -> bool:
    """Whether a tensor looks computed rather than learned.

    Args:
        x: Float tensor of any shape.

    Returns:
        True for few distinct values, a (log-)linear ramp, or rows or columns that are each a few spectral lines.
    """
    flat = x.reshape(-1)[:_GLANCE] if x.ndim < 2 else x.reshape(x.shape[0], -1)[:, :_GLANCE][:_GLANCE_ROWS].reshape(-1)
    if flat.numel() < 2 or not bool(torch.isfinite(flat).all()):
        return True
    if len(torch.unique(flat[:4096])) <= min(_FEW, flat.numel() // 2):
        return True
    if x.ndim < 2:
        return flat.numel() >= 4 and (_ramp(flat) or (bool((flat > 0).all()) and _ramp(flat.log())))
    matrix = x.reshape(x.shape[0], -1)
    return _spectral(matrix) or _spectral(matrix.T)


def _ramp(x: torch.Tensor) -> bool:
    steps = x.diff()
    return float(steps.std()) <= _SMOOTH * float(steps.abs().mean())


def _spectral(rows: torch.Tensor) -> bool:
    """Whether almost every row has almost all its energy in a few neighbouring frequencies."""
    if rows.shape[1] < 4 * _LEAST or rows.shape[0] < 2:
        return False
    step = max(1, rows.shape[0] // 64)
    energy = torch.fft.rfft(rows[::step], dim=1).abs().square()
    total = energy.sum(dim=1)
    live = total > 0
    if not bool(live.any()):
        return False
    windows = energy[live].unfold(1, min(_LINES, energy.shape[1]), 1).sum(dim=2).max(dim=1).values
    return float(((windows / total[live]) > _CONCENTRATED).float().mean()) > _CONCENTRATED
