"""The residual basis: identity, signed permutation, or any rotation, found from the embedding rows.

Orthogonal Procrustes (Schönemann 1966) on rows that stand for the same tokens. Two unrelated embeddings also gain some
cosine from d x d free parameters, so a rotation is believed only on rows it was not fitted on, and where the
vocabulary is too small for that, only if layers it has never seen match afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment

from fingerprint.architecture.interface import Role, Slot

from .matching import normalised, row_cosines
from .side import NORM_BIASES, NORMS, RESIDUAL_COLUMNS, RESIDUAL_ROWS, RESIDUAL_VECTORS, TABLES, WRITERS, Side

SAME_COORDINATE = 0.5
"""Cosine of a coordinate's column over the vocabulary; unrelated ones stay below sqrt(2 ln d / V), about .2."""

_MOST_MOVED = 0.02
_BELIEVED = 0.7
_SMALL_FIT = 0.8
_MOST_ROWS = 16384


@dataclass(frozen=True)
class Turn:
    """A change of the residual basis that brings the candidate's to the reference's.

    Attributes:
        order: (d,) candidate coordinate of each reference coordinate, with ``signs``; or None.
        signs: (d,) of +-1; or None.
        matrix: (d, d) orthogonal, applied on the right of rows; or None.
        held_out: Median cosine of rows not fitted on; nan where none could be held out.
    """

    order: torch.Tensor | None = None
    signs: torch.Tensor | None = None
    matrix: torch.Tensor | None = None
    held_out: float = float("nan")

    def columns(self, x: torch.Tensor) -> torch.Tensor:
        """Turn the last axis."""
        if self.matrix is not None:
            return x @ self.matrix
        assert self.order is not None and self.signs is not None  # noqa: S101
        return x[..., self.order] * self.signs

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        """Turn the first axis of a matrix."""
        return self.columns(x.T).T.contiguous()

    def gains(self, x: torch.Tensor) -> torch.Tensor:
        """Gains follow a permutation; under a rotation they must be uniform already."""
        return x if self.order is None else x[self.order]

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


def rescale(side: Side, factor: float) -> None:
    """Divide everything that adds to the residual stream by ``factor``, in place."""
    for slot in side.slots(*TABLES, *WRITERS, *RESIDUAL_VECTORS):
        side.tensors[slot] = side.tensors[slot] / factor


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
    c, r = pair
    here = row_cosines(c.T, r.T).abs()
    if float((here > SAME_COORDINATE).float().mean()) >= 1.0 - _MOST_MOVED and bool((here > SAME_COORDINATE).all()):
        return None
    moved = _signed_permutation(c, r)
    if moved is not None:
        identity = bool((moved.order == torch.arange(c.shape[1])).all()) if moved.order is not None else False
        return None if identity and bool((moved.signs == 1).all()) else moved  # type: ignore[union-attr]
    if float(here.median()) > SAME_COORDINATE or not reference.layout.pre_norm:
        return None
    return _rotation(candidate, reference, c, r)


def _paired_rows(candidate: Side, reference: Side) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Embedding rows that stand for the same tokens, at most some thousands; None when widths differ."""
    c, r = candidate.get(Role.EMBED), reference.get(Role.EMBED)
    if c is None or r is None or c.shape != r.shape:
        return None
    most = max(_MOST_ROWS, 8 * r.shape[1])
    if r.shape[0] > most:
        keep = torch.randperm(r.shape[0], generator=torch.Generator().manual_seed(0))[:most]
        c, r = c[keep], r[keep]
    return c, r


def _signed_permutation(c: torch.Tensor, r: torch.Tensor) -> Turn | None:
    """A signed permutation of coordinates, if one explains the columns."""
    cosines = normalised(r.T.contiguous()) @ normalised(c.T.contiguous()).T
    strength = cosines.abs()
    order = strength.argmax(dim=1)
    if int(torch.bincount(order, minlength=len(order)).max()) > 1:
        if float(strength.max(dim=1).values.median()) < _BELIEVED:
            return None
        order = torch.from_numpy(linear_sum_assignment(strength.numpy(), maximize=True)[1])
    rows = torch.arange(len(order))
    if float(strength[rows, order].median()) < _BELIEVED:
        return None
    return Turn(order=order, signs=torch.sign(cosines[rows, order]), held_out=float(strength[rows, order].median()))


def _rotation(candidate: Side, reference: Side, c: torch.Tensor, r: torch.Tensor) -> Turn | None:
    """A rotation, if rows it is not fitted on agree; with few rows, if the fit is close and layers may judge."""
    if reference.centred:
        c, r = c - c.mean(dim=1, keepdim=True), r - r.mean(dim=1, keepdim=True)
    n, d = r.shape
    if n >= 4 * d:
        half = polar(c[::2].T @ r[::2])
        held_out = float(row_cosines(c[1::2] @ half, r[1::2]).median())
        if held_out < _BELIEVED:
            return None
        return Turn(matrix=polar(c.T @ r), held_out=held_out)
    c, r = _with_head(candidate, reference, c, r)
    matrix = polar(c.T @ r)
    fit = float(row_cosines(c @ matrix, r).median())
    return Turn(matrix=matrix) if fit > _SMALL_FIT else None


def _with_head(
    candidate: Side, reference: Side, c: torch.Tensor, r: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Head rows added, each table scaled to unit mean square, where an untied head has the same rows."""
    head = Slot(Role.HEAD)
    if head not in candidate.tensors or head not in reference.tensors:
        return c, r
    x, y = candidate.reader(head), reference.reader(head)
    if x.shape != y.shape:
        return c, r
    pairs = ((c, x), (r, y))
    joined = [torch.cat([a / a.norm(), b / b.norm()]) for a, b in pairs]
    return joined[0], joined[1]


def polar(moment: torch.Tensor) -> torch.Tensor:
    """The orthogonal matrix nearest to a (d x d) cross moment; directions without energy are turned arbitrarily."""
    u, _, v = torch.linalg.svd(moment.double(), full_matrices=False)
    return (u @ v).float()


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
