"""A residual stream that was made wider than it needs to be: features that are zero, plainly or under a rotation.

Net2Net-style widening (arXiv 1511.05641). RMSNorm then divides by a root mean square over more coordinates, which
gains make up for by sqrt(narrow / wide).
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from fingerprint.architecture.interface import Norm, Role

from .alignment import Witness
from .norms import fold_all
from .side import RESIDUAL_COLUMNS, RESIDUAL_ROWS, RESIDUAL_VECTORS, Side, norms, readers

_EMPTY = 0.3
"""Root energy of a coordinate or direction that was added, against the median: zero, or what noise made of zero."""

_MOST_ROWS = 16384


def narrow(candidate: Side, reference: Side, witness: Witness) -> set[str]:
    """Bring the wider side's residual stream to the narrower one's width, in place; nothing if no room is empty.

    Returns:
        Transforms undone.
    """
    widths = [_width(side) for side in (candidate, reference)]
    if min(widths) < 1 or widths[0] == widths[1] or any(not _rms(side) for side in (candidate, reference)):
        return set()
    wide, target = (candidate, widths[1]) if widths[0] > widths[1] else (reference, widths[0])
    energy = _written(wide)
    if energy is None:
        return set()
    kept = _full_coordinates(energy, target)
    if kept is not None:
        _cut(wide, kept)
        _regain(wide, math.sqrt(len(energy) / target))
        return {"padded:residual"}
    basis = _full_directions(energy, target)
    if basis is None:
        return set()
    words = fold_all(candidate, reference, witness)
    _project(wide, basis)
    for norm in norms(wide):
        for slot in readers(wide, norm):
            wide.tensors[slot] = wide.tensors[slot] * math.sqrt(len(energy) / target)
        wide.tensors[norm] = torch.ones(target)
    wide.layout = replace(wide.layout, dims=replace(wide.layout.dims, hidden=target))
    return words | {"padded:residual"}


def _width(side: Side) -> int:
    embed = side.get(Role.EMBED)
    return int(embed.shape[1]) if embed is not None and embed.ndim == 2 else 0


def _rms(side: Side) -> bool:
    return side.layout.norm is Norm.RMS and side.layout.pre_norm


def _written(side: Side) -> torch.Tensor | None:
    """(d x d) second moment of all that is written to the stream, each tensor at unit size."""
    width = _width(side)
    total = torch.zeros(width, width, dtype=torch.float64)
    for slot in side.slots(Role.EMBED, Role.OUT, Role.DOWN):
        x = side.tensors[slot] if slot.role is Role.EMBED else side.tensors[slot].T
        if x.ndim != 2 or x.shape[1] != width:
            return None
        x = x[:: max(1, len(x) // _MOST_ROWS)].double()
        total += x.T @ x / x.square().sum().clamp_min(1e-30)
    return total


def _full_coordinates(energy: torch.Tensor, target: int) -> torch.Tensor | None:
    """Coordinates that carry something, in order, if exactly ``target`` of them do."""
    root = energy.diagonal().clamp_min(0).sqrt()
    kept = torch.nonzero(root > _EMPTY * root.sort(descending=True).values[:target].median()).flatten()
    return kept if len(kept) == target else None


def _full_directions(energy: torch.Tensor, target: int) -> torch.Tensor | None:
    """(d, target) basis of the directions that carry something, if there is a gap after ``target`` of them."""
    values, vectors = torch.linalg.eigh(energy)
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    gap = float(values[target]) < (_EMPTY**2) * float(values[target - 1])
    return vectors[:, :target].float() if gap else None


def _cut(side: Side, kept: torch.Tensor) -> None:
    width = _width(side)
    for slot, x in list(side.tensors.items()):
        if slot.role in RESIDUAL_COLUMNS:
            side.tensors[slot] = x[:, kept]
        elif slot.role in RESIDUAL_ROWS or (x.ndim == 1 and len(x) == width and slot.role is not Role.OTHER):
            side.tensors[slot] = x[kept]
    side.layout = replace(side.layout, dims=replace(side.layout.dims, hidden=len(kept)))


def _regain(side: Side, factor: float) -> None:
    for norm in norms(side):
        side.tensors[norm] = side.tensors[norm] * factor


def _project(side: Side, basis: torch.Tensor) -> None:
    for slot, x in list(side.tensors.items()):
        if slot.role in RESIDUAL_COLUMNS:
            side.tensors[slot] = x @ basis
        elif slot.role in RESIDUAL_ROWS or slot.role in RESIDUAL_VECTORS:
            side.tensors[slot] = basis.T @ x
