"""What a tensor's change is made of: a multiple of the reference, a step along its own change, and what these leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fingerprint.architecture.interface import Slot
from fingerprint.compare import changes
from fingerprint.compare.align import Alignment
from fingerprint.compare.regress import project


@dataclass(frozen=True)
class Fitted:
    """A slot's delta after regression on the reference and on its own change from the base."""

    relative: float
    similarity: float
    kind: str | None
    coefficients: tuple[float, ...]
    left: torch.Tensor


def fitted(slot: Slot, found: Alignment, rooted: Sequence[torch.Tensor], stored: torch.dtype, exact: bool) -> Fitted:
    """Regress a slot's change.

    Args:
        slot: Of the reference.
        found: Candidate and reference in one gauge.
        rooted: The base's tensor at that slot, where there is one.
        stored: What the candidate was stored as.
        exact: Whether values are as stored, so that a scheme or a step can be reproduced.
    """
    c, r = flat(found.aligned[slot]), flat(found.reference[slot])
    delta = c.double() - r.double()
    size = float(r.double().norm()) or 1.0
    cosine = float((c.double() * r.double()).sum()) / max(float(c.double().norm()) * size, 1e-300)
    if not delta.any():
        return Fitted(0.0, 1.0, None, (0.0, 0.0), delta)
    kind = _kind(c, r, stored) if exact else None
    pruned = kind is not None and kind.startswith("pruned")
    kept = (c != 0) | (r == 0) if pruned else torch.ones_like(c, dtype=torch.bool)
    fit = project(delta * kept, [r * kept, *((r - flat(b)) * kept for b in rooted)])
    left = fit.residual
    stepped = exact and bool(rooted) and abs(fit.coefficients[1]) >= STEP
    if stepped and changes.step_between(c, r, flat(rooted[0]), fit.coefficients[1], stored):
        left = torch.zeros_like(left)
    return Fitted(float(delta.norm()) / size, cosine, kind, fit.coefficients, left)


def along(
    found: Alignment, fits: Mapping[Slot, Fitted], rooted: Mapping[Slot, Sequence[torch.Tensor]], stored: torch.dtype
) -> dict[Slot, Fitted]:
    """Norms and biases that went along with the step that the matrices took: they have too few values to fit it."""
    steps = [
        f.coefficients[1] for s, f in fits.items()
        if found.reference[s].ndim >= 2 and f.relative > 0.0 and not f.left.any() and len(f.coefficients) > 1
    ]  # fmt: skip
    if not steps:
        return {}
    toward = float(np.median(steps))
    went: dict[Slot, Fitted] = {}
    for slot, fit in fits.items():
        c, r = flat(found.aligned[slot]), flat(found.reference[slot])
        small = r.ndim < 2 and fit.left.any() and bool(rooted.get(slot))
        if small and changes.step_between(c, r, flat(rooted[slot][0]), toward, stored):
            went[slot] = replace(fit, left=torch.zeros_like(fit.left))
    return went


STEP = 0.01
"""Smallest step toward or away from the base that is tried as a formula."""


def _kind(c: torch.Tensor, r: torch.Tensor, stored: torch.dtype) -> str | None:
    rounded = changes.cast(c, r)
    if rounded is not None:
        return f"cast:{rounded}"
    if r.ndim != 2:
        return None
    scheme = changes.quantised(c, r, dtype=stored)
    if scheme is not None:
        return f"quantised:{scheme}"
    fraction = changes.pruned(c, r)
    return None if fraction is None else f"pruned:{fraction:.2g}"


def flat(x: torch.Tensor) -> torch.Tensor:
    """Matrices as they are, higher ranks as (first axis x rest)."""
    return x if x.ndim <= 2 else x.reshape(x.shape[0], -1)
