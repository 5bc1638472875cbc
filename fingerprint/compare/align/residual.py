"""The residual basis: identity, signed permutation, or any rotation, found from the embedding rows.

Orthogonal Procrustes (Schönemann 1966) on rows that stand for the same tokens. Two unrelated embeddings also gain some
cosine from d x d free parameters, so a rotation is believed only if two halves of the rows tell the same one, and
layers that no row has seen match under it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment

from fingerprint.architecture.interface import Role, Slot

from .matching import cosine, row_cosines
from .side import NORM_BIASES, NORMS, RESIDUAL_COLUMNS, RESIDUAL_ROWS, RESIDUAL_VECTORS, TABLES, WRITERS, Side

SAME_BASIS = 0.7
"""Median cosine of centred embedding rows at which the basis is the same; a 46% change leaves .9."""

_STRAY = 0.5
"""Relative residual of a coordinate's column at which it may have been moved, and how far above the median that is."""
_STRAY_FACTOR = 3.0
_SNAP = 0.7
_BELIEVED = 0.5
"""tr(R1^T R2) / d of two rotations fitted on different rows: 1 for one basis, below .3 for unrelated models."""
_SMALL_FIT = 0.8
_MOST_ROWS = 16384


@dataclass(frozen=True)
class Turn:
    """A change of the residual basis that brings the candidate's to the reference's.

    Attributes:
        order: (d,) candidate coordinate of each reference coordinate, with ``signs``; or None.
        signs: (d,) of +-1; or None.
        matrix: (d, d) orthogonal, applied on the right of rows; or None.
        held_out: tr(R1^T R2) / d of rotations fitted on two halves of the rows; nan where there were too few rows.
    """

    order: torch.Tensor | None = None
    signs: torch.Tensor | None = None
    matrix: torch.Tensor | None = None
    held_out: float = float("nan")

    def columns(self, x: torch.Tensor) -> torch.Tensor:
        """Turn the last axis."""
        if self.matrix is not None:
            return x @ self.matrix
        if self.order is None or self.signs is None:
            return x
        return x[..., self.order] * self.signs

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        """Turn the first axis of a matrix."""
        return self.columns(x.T).T.contiguous()

    def gains(self, x: torch.Tensor) -> torch.Tensor:
        """Gains follow a permutation; under a rotation they must be uniform already."""
        return x if self.order is None else x[self.order]

    @property
    def width(self) -> int:
        """Width of the residual stream."""
        return len(self.matrix) if self.matrix is not None else len(self.order) if self.order is not None else 0

    @property
    def dense(self) -> bool:
        """Whether it is a rotation proper, under which norms must be folded."""
        return self.matrix is not None


def turn(side: Side, by: Turn) -> None:
    """Apply ``by`` to everything that touches the residual stream, in place."""
    for slot, x in list(side.tensors.items()):
        if slot.role in RESIDUAL_COLUMNS:
            side.tensors[slot] = by.columns(x)
        elif slot.role in RESIDUAL_ROWS:
            side.tensors[slot] = by.rows(x)
        elif slot.role in RESIDUAL_VECTORS or slot.role in NORM_BIASES:
            side.tensors[slot] = by.columns(x)
        elif slot.role in NORMS:
            side.tensors[slot] = by.gains(x)


def turn_others(candidate: Side, reference: Side, by: Turn) -> None:
    """Apply ``by`` to tensors without a role (a pooler, a classifier), on those axes where it brings them closer."""
    for slot, r in reference.tensors.items():
        c = candidate.tensors.get(slot)
        if slot.role is not Role.OTHER or c is None or c.shape != r.shape or c.ndim > 2 or cosine(c, r) > _STRAY:
            continue
        width = by.width
        ways = [by.columns(c)] if c.shape[-1:] == (width,) else []
        if c.ndim == 2 and c.shape[0] == width:
            ways += [by.rows(x) for x in (c, *ways)]
        best = max(ways, key=lambda x: cosine(x, r), default=c)
        if cosine(best, r) > _STRAY:
            candidate.tensors[slot] = best


def rescale(side: Side, factor: float) -> None:
    """Divide everything that adds to the residual stream by ``factor``, in place.

    A tied head is divided with the embedding, so the last norm makes up for it.
    """
    for slot in side.slots(*TABLES, *WRITERS, *RESIDUAL_VECTORS):
        side.tensors[slot] = side.tensors[slot] / factor
    if side.layout.tied:
        for slot in side.slots(Role.FINAL_NORM, Role.FINAL_NORM_BIAS):
            side.tensors[slot] = side.tensors[slot] * factor


def find_turn(candidate: Side, reference: Side) -> Turn | None:
    """The change of basis that the embeddings call for; None when the basis is the same or none can be shown.

    Args:
        candidate: Vocabulary rows already in the reference's order.
        reference: The other side.

    Returns:
        Turn or None.
    """
    pair = _paired_rows(candidate, reference)
    if pair is None:
        return None
    if torch.equal(*pair):
        return None
    c, r = (x - x.mean(dim=0) for x in pair)
    same = float(row_cosines(c, r).median()) > SAME_BASIS
    if same and not bool(_strays(c, r).any()):
        return None
    fitted = _rotation(candidate, reference, c, r)
    if fitted is None or fitted.matrix is None:
        return None
    order, signs = _snapped(fitted.matrix)
    if order is not None:
        if bool((order == torch.arange(len(order))).all()) and bool((signs == 1).all()):
            return None
        return Turn(order=order, signs=signs, held_out=fitted.held_out)
    return None if same or not reference.layout.pre_norm else fitted


def _strays(c: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """Coordinates whose columns fit far worse than most, (d,) bool."""
    scale = c.norm() / r.norm().clamp_min(1e-30)
    gap = (c / scale.clamp_min(1e-30) - r).norm(dim=0) / r.norm(dim=0).clamp_min(1e-30)
    strays: torch.Tensor = (gap > _STRAY) & (gap > _STRAY_FACTOR * gap.median())
    return strays


def _paired_rows(candidate: Side, reference: Side) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Embedding rows that stand for the same tokens, at most some thousands; None when widths differ.

    Callers take the mean row out: it is most of what tied embeddings consist of, and every column resembles it.
    """
    c, r = candidate.get(Role.EMBED), reference.get(Role.EMBED)
    if c is None or r is None or c.shape != r.shape:
        return None
    most = max(_MOST_ROWS, 8 * r.shape[1])
    if r.shape[0] > most:
        keep = torch.randperm(r.shape[0], generator=torch.Generator().manual_seed(0))[:most]
        c, r = c[keep], r[keep]
    return c, r


def _snapped(matrix: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor]:
    """(order, signs) if a rotation is a signed permutation up to noise, else (None, signs).

    Asked of the fitted rotation and not of columns: where embeddings share one large direction, as tied ones do,
    every column resembles every other.
    """
    strength = matrix.abs()
    order = strength.argmax(dim=0)
    columns = torch.arange(len(order))
    if int(torch.bincount(order, minlength=len(order)).max()) > 1:
        order = torch.from_numpy(linear_sum_assignment(strength.T.numpy(), maximize=True)[1])
    signs = torch.sign(matrix[order, columns])
    return (order if float(strength[order, columns].median()) > _SNAP else None), signs


def _rotation(candidate: Side, reference: Side, c: torch.Tensor, r: torch.Tensor) -> Turn | None:
    """A rotation, if two halves of the rows tell the same one; with few rows, if the fit is close and layers may judge.

    The halves are compared as matrices, every direction alike: rows have most of their length in a few directions
    that any two models of one language share.
    """
    if reference.centred:
        c, r = c - c.mean(dim=1, keepdim=True), r - r.mean(dim=1, keepdim=True)
    n, d = r.shape
    if n >= 2.5 * d:
        halves = [polar(c[i::2].T @ r[i::2]) for i in range(2)]
        held_out = float((halves[0] * halves[1]).sum()) / d
        return Turn(matrix=polar(c.T @ r), held_out=held_out) if held_out > _BELIEVED else None
    c, r = _with_head(candidate, reference, c, r)
    matrix = polar(c.T @ r)
    fit = float(row_cosines(c @ matrix, r).median())
    return Turn(matrix=matrix) if fit > _SMALL_FIT else None


def _with_head(candidate: Side, reference: Side, c: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Head rows added, each table at unit size, where an untied head has the same rows.

    Their mean row is taken out first: softmax does not see it, so it may have been shifted.
    """
    head = Slot(Role.HEAD)
    if head not in candidate.tensors or head not in reference.tensors:
        return c, r
    x, y = candidate.reader(head), reference.reader(head)
    if x.shape != y.shape:
        return c, r
    x, y = x - x.mean(dim=0), y - y.mean(dim=0)
    pairs = ((c, x), (r, y))
    joined = [torch.cat([a / a.norm(), b / b.norm()]) for a, b in pairs]
    return joined[0], joined[1]


def polar(moment: torch.Tensor) -> torch.Tensor:
    """The orthogonal matrix nearest to a (d x d) cross moment; directions without energy are turned arbitrarily."""
    u, _, v = torch.linalg.svd(moment.double(), full_matrices=False)
    matrix: torch.Tensor = (u @ v).float()
    return matrix


def refined(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]], width: int) -> Turn:
    """The rotation again, from every pair of matched matrices (rows are residual vectors).

    Args:
        pairs: Candidate and reference, (n x d) each, in matched order.
        width: d.

    Returns:
        A dense Turn to apply on top of what was applied before.
    """
    moment = torch.zeros(width, width, dtype=torch.float64)
    for c, r in pairs:
        size = float(c.norm() * r.norm())
        if size > 0:
            moment += (c.T @ r).double() / size * c.numel()
    return Turn(matrix=polar(moment))
