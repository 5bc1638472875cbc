"""Was a change drawn or learned? Statistics of one delta matrix against its own sign-flip null.

A copier's change is drawn without looking at the loss: noise, rounding, pruning. A gradient step is a sum of outer
products (output gradient x input), so its entries agree in sign across rows and columns. Flipping the sign of every
entry at random keeps *all* magnitudes - row and column profiles, sparsity, heavy tails, lattice steps - and destroys
exactly that agreement, so the flipped matrix is the null for any drawn change, whatever its shape or scale. Mean and
variance of the statistics under the flips are known in closed form; nothing is sampled.

Plain dispersion or spectra against an iid Gaussian edge (design 2-weights, section 5) are fooled by per-row
quantisation and by heteroscedastic noise; against the flip null these are at zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

MAX_SIDE = 1024
"""Rows (of the shorter side) that enter a Gram matrix; more are taken at an even stride. Bounds cost at 2e9 flops."""


@dataclass(frozen=True)
class Coherence:
    """Sign agreement between the rows of a delta.

    Attributes:
        excess: Sum of squared off-diagonal Gram entries over its flip-null mean, minus 1. 0 for a drawn change.
        z: The same in standard deviations of the flip null.
        effective: Number of entries that carry the energy, (sum d^2)^2 / sum d^4: the evidence at hand.
    """

    excess: float
    z: float
    effective: float


NOTHING = Coherence(0.0, 0.0, 0.0)
"""Of a change of which nothing is left."""


def coherence(delta: torch.Tensor) -> Coherence:
    """Sign coherence of ``delta`` (m x n, floating) along its shorter side.

    With x_ij = sum_k d_ik d_jk, T = sum_{i != j} x_ij^2. Under independent sign flips E x_ij^2 = sum_k d_ik^2 d_jk^2
    and Var x_ij^2 = 2 ((sum_k d_ik^2 d_jk^2)^2 - sum_k d_ik^4 d_jk^4); distinct pairs are uncorrelated.
    """
    d = delta if delta.shape[0] <= delta.shape[1] else delta.T
    if d.shape[0] > MAX_SIDE:
        d = d[:: math.ceil(d.shape[0] / MAX_SIDE)]
    scale = float(d.abs().max()) if d.numel() else 0.0
    if scale == 0.0 or not math.isfinite(scale) or min(d.shape) < 2:
        return Coherence(0.0, 0.0, 0.0)
    d = (d / scale).double()
    squares = d * d
    gram = d @ d.T
    gram.fill_diagonal_(0.0)
    mean = squares @ squares.T
    fourth = squares.square() @ squares.square().T
    variance = mean.square() - fourth
    variance.fill_diagonal_(0.0)
    mean.fill_diagonal_(0.0)
    expected = float(mean.sum())
    energy = float(squares.sum())
    effective = energy * energy / float(squares.square().sum())
    sd = math.sqrt(max(4.0 * float(variance.sum()), 0.0))
    if expected <= 0.0 or sd <= 0.0:
        return Coherence(0.0, 0.0, effective)
    excess = float(gram.square().sum()) - expected
    return Coherence(excess / expected, excess / sd, effective)


@dataclass(frozen=True)
class Gain:
    """How much more a delta acts along a covariance than its sign-flipped self would.

    Attributes:
        value: tr(D C D^T) over its flip-null mean; 1 for a drawn change.
        z: Distance from 1 in standard deviations of the flip null.
    """

    value: float
    z: float


def gain(delta: torch.Tensor, covariance: torch.Tensor) -> Gain:
    """Gain of ``delta`` (m x n) on ``covariance`` (n x n, of the layer's real inputs).

    A random low-rank adapter is as coherent as a trained one; only one that was trained points where inputs are.
    Pass ``delta.T`` with the covariance of the output gradients for the other side.
    """
    d, c = delta.double(), covariance.double()
    squares = d * d
    diagonal = torch.diagonal(c)
    expected = float((squares @ diagonal).sum())
    off = c - torch.diag(diagonal)
    excess = float(((d @ off) * d).sum())
    # Var of sum_i sum_{j != k} d_ij d_ik c_jk under flips = 2 sum_i sum_{j != k} d_ij^2 d_ik^2 c_jk^2.
    variance = 2.0 * float(((squares @ off.square()) * squares).sum())
    if expected <= 0.0 or variance <= 0.0:
        return Gain(1.0, 0.0)
    return Gain(1.0 + excess / expected, excess / math.sqrt(variance))
