"""Is the candidate a linear combination of known models? Least squares, matrix by matrix, and over the whole model.

Everything works on dictionaries of arrays: whole matrices at full depth, linear sketches at sketch depth. A sketch is
linear and unbiased for inner products, so the same equations hold for both (design 2-weights, sections 3 and 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls

from fingerprint.architecture.interface import Slot

Arrays = Mapping[Slot, torch.Tensor]

COLLINEAR_RIDGE = 1e-12
"""Relative ridge that keeps a singular Gram matrix solvable without moving a well-posed answer."""


@dataclass(frozen=True)
class Fit:
    """delta = sum_k coefficients[k] * direction[k] + residual, for one slot.

    Attributes:
        coefficients: One per direction.
        residual: What is left, same shape as the delta.
        explained: 1 - |residual|^2 / |delta|^2; 0 when the delta is zero.
    """

    coefficients: tuple[float, ...]
    residual: torch.Tensor
    explained: float


def project(delta: torch.Tensor, directions: Sequence[torch.Tensor]) -> Fit:
    """Least-squares fit of ``delta`` on ``directions`` (all of one shape), in float64."""
    d = delta.double()
    energy = float((d * d).sum())
    kept = [(i, x.double()) for i, x in enumerate(directions) if float(x.abs().max() if x.numel() else 0.0) > 0.0]
    if not kept or energy == 0.0:
        return Fit((0.0,) * len(directions), d, 0.0)
    gram = np.array([[float((a * b).sum()) for _, b in kept] for _, a in kept])
    right = np.array([float((a * d).sum()) for _, a in kept])
    scale = np.sqrt(np.diag(gram))
    gram = gram / np.outer(scale, scale) + COLLINEAR_RIDGE * np.eye(len(kept))
    solution = np.linalg.solve(gram, right / scale) / scale
    residual = d.clone()
    coefficients = [0.0] * len(directions)
    for (i, x), c in zip(kept, solution, strict=True):
        residual -= float(c) * x
        coefficients[i] = float(c)
    return Fit(tuple(coefficients), residual, 1.0 - float((residual * residual).sum()) / energy)


@dataclass(frozen=True)
class Mixture:
    """Weights of known models that sum to one and best reproduce the candidate.

    Attributes:
        weights: One per known model, non-negative unless ``signed``.
        residual: |candidate - mixture| / |candidate - nearest single known model|; 0 is an exact mixture.
    """

    weights: tuple[float, ...]
    residual: float


def inner(a: Arrays, b: Arrays, slots: Sequence[Slot]) -> float:
    """Inner product over ``slots``."""
    return sum(float((a[s].double() * b[s].double()).sum()) for s in slots)


def mixture(candidate: Arrays, known: Sequence[Arrays], slots: Sequence[Slot]) -> Mixture:
    """Weights over ``known`` (all in one gauge) that sum to one and best reproduce ``candidate``, as few as will do.

    The sum-to-one constraint is eliminated by working in differences to the nearest known model, so that what is
    fitted is delta against delta and not the common bulk of the weights. Convex weights first (non-negative least
    squares); where they leave much, weights of any sign, as task arithmetic makes them (arXiv 2212.04089).
    """
    if len(known) < 2 or not slots:
        return Mixture((1.0,) * min(1, len(known)), 1.0)
    deltas = [{s: candidate[s].double() - k[s].double() for s in slots} for k in known]
    gram = np.array([[inner(a, b, slots) for b in deltas] for a in deltas])
    nearest = int(np.argmin(np.diag(gram)))
    if gram[nearest, nearest] <= 0.0:
        return Mixture(tuple(1.0 if i == nearest else 0.0 for i in range(len(known))), 0.0)
    weights = _fewest(gram, _simplex)
    if _left(gram, weights) > CONVEX:
        signed = _fewest(gram, _affine)
        if _left(gram, signed) < CONVEX:
            weights = signed
    return Mixture(tuple(float(w) for w in weights), _left(gram, weights))


CONVEX = 0.15
"""Remainder from which weights of any sign are tried. Rounding and light noise leave .02 to .08 of a soup."""

SLACK, SLIGHT = 1.2, 0.01
"""A model is left out of a mixture when the remainder grows by less than this factor and this much."""


def _left(gram: np.ndarray, weights: np.ndarray) -> float:
    """|candidate - mixture| / |candidate - nearest|."""
    return float(np.sqrt(max(float(weights @ gram @ weights), 0.0) / float(np.diag(gram).min())))


def _fewest(gram: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Weights without models that hardly help: many known models fit noise better than two."""
    active = np.arange(gram.shape[0])
    weights = solve(gram)
    limit = _left(gram, weights) * SLACK + SLIGHT
    while active.size > 1:
        kept = np.delete(active, int(np.argmin(np.abs(weights[active]))))
        trial = np.zeros(gram.shape[0])
        trial[kept] = solve(gram[np.ix_(kept, kept)])
        if _left(gram, trial) > limit:
            break
        active, weights = kept, trial
    return weights


def _affine(gram: np.ndarray) -> np.ndarray:
    """Argmin w' G w over sum w = 1, any sign."""
    n = gram.shape[0]
    ridge = COLLINEAR_RIDGE * float(np.trace(gram)) / n * np.eye(n)
    raw = np.linalg.solve(gram + ridge, np.ones(n))
    return np.asarray(raw / raw.sum())


def _simplex(gram: np.ndarray) -> np.ndarray:
    """Argmin w' G w over w >= 0, sum w = 1, as NNLS with a heavy row for the sum (Lawson & Hanson 1974, ch. 20)."""
    n = gram.shape[0]
    scale = float(np.trace(gram)) / n
    values, vectors = np.linalg.eigh(gram / scale)
    root = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T
    heavy = 1e4
    a = np.vstack([root, heavy * np.ones((1, n))])
    b = np.concatenate([np.zeros(n), [heavy]])
    weights, _ = nnls(a, b)
    return np.asarray(weights / weights.sum())
