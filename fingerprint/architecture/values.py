"""What values say about roles where names and shapes do not.

Training leaves marks that no renaming removes, and that the symmetries of 2-weights section 4 keep:

- unit i of a gate, an up and a down matrix, and dimension j of a head in query and key, or in value and output, were
  trained against each other, so that lines of equal index are more parallel than lines of unequal index;
- gate rows share a direction (the activation's working point), up rows do not: their sign is free;
- rows of a head are more (or, in some encoders, less) alike than rows of two heads, which gives the head's width;
- output rows share a direction (rare tokens are all pushed down), embedding rows share less of one;
- a norm's gain and the column norms of the matrices that read it move together.

Measured on trained families of width 96 to 384; figures stand at the thresholds. All tests are on a few layers and at
most ``LINES`` lines of a matrix, in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from fingerprint.checkpoint.interface import Checkpoint

from .interface import View
from .reading import read_blocks

LINES = 1024
"""Lines (rows or columns) of a matrix that are looked at."""

LAYERS = 6
"""Layers that are looked at, evenly spread."""

WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 512)
"""Head widths that are tried."""

SHIFTS = (-4, -3, -2, -1, 1, 2, 3, 4)
"""Lines that are compared as unequal; both ways, so that the score does not depend on which matrix comes first."""

CLEAR = 25.0
"""Summed z score of a head width that is believed; untrained matrices stay under 8."""


def spread(count: int, most: int = LAYERS) -> list[int]:
    """At most ``most`` of ``count`` layers, evenly spread, first and last included."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def lines(checkpoint: Checkpoint, view: View, *, columns: bool = False, most: int = LINES) -> torch.Tensor:
    """The first rows (or columns) of a matrix, centred over lines and of unit length.

    Args:
        checkpoint: Where it is stored.
        view: A matrix.
        columns: Take columns; the matrix is then streamed through.
        most: Most lines taken.

    Returns:
        float32 (lines x width); a line of zeros stays zero, and non-finite values count as zero.
    """
    parts: list[torch.Tensor] = []
    rows = 0
    for block in read_blocks(checkpoint, view, 256):
        parts.append(block[:, :most].float().T.clone() if columns else block[: most - rows].float().clone())
        rows += block.shape[0]
        if not columns and rows >= most:
            break
    if not parts:
        return torch.zeros(0, 0)
    x = torch.nan_to_num(torch.cat(parts, dim=1 if columns else 0), 0.0, 0.0, 0.0)
    return unit(x - x.mean(dim=0))


def first_rows(checkpoint: Checkpoint, view: View, most: int = LINES) -> torch.Tensor:
    """The first rows of a matrix as they are, float32, finite."""
    for block in read_blocks(checkpoint, view, most):
        return torch.nan_to_num(block.float(), 0.0, 0.0, 0.0)
    return torch.zeros(0, view.shape[-1])


def is_gain(vector: torch.Tensor) -> bool:
    """Whether a vector is a norm's gain rather than a bias: its mean is most of its size."""
    x = torch.nan_to_num(vector.float().flatten(), 0.0, 0.0, 0.0)
    return bool(x.numel()) and float(x.mean()) > 0.5 * float(x.square().mean().sqrt()) > 0.0


def unit(x: torch.Tensor) -> torch.Tensor:
    """Rows scaled to length one."""
    scaled: torch.Tensor = x / x.norm(dim=1, keepdim=True).clamp_min(1e-20)
    return scaled


def alignment(one: torch.Tensor, other: torch.Tensor) -> float:
    """Z score of squared cosines of lines of equal index, against lines a few apart.

    Args:
        one: Unit lines (n x d).
        other: Unit lines, in the order in which they would have been trained against ``one``.

    Returns:
        About N(0, 1) for unrelated matrices. 3 to 60 for partners of one layer in small trained models, 340 to
        1000 for up and down of MiniLM.
    """
    count = min(len(one), len(other))
    if count < 16 or one.shape[1] != other.shape[1]:
        return 0.0
    one, other = one[:count], other[:count]
    matched = (one * other).sum(dim=1).square()
    shifted = torch.stack([(one * other.roll(shift, 0)).sum(dim=1).square() for shift in SHIFTS])
    spread_of_mean = float(shifted.std()) / count**0.5
    return float(matched.mean() - shifted.mean()) / spread_of_mean if spread_of_mean > 0 else 0.0


def per_query(keys: torch.Tensor, *, head_dim: int, group: int, count: int) -> torch.Tensor:
    """Key or value lines repeated so that line i belongs to query line i.

    Args:
        keys: (kv_heads * head_dim x d).
        head_dim: Width of a head.
        group: Query heads for each key head.
        count: Number of query lines.

    Returns:
        Lines in query order, as many of ``count`` as the keys cover.
    """
    index = torch.arange(count)
    source = (index // head_dim // group) * head_dim + index % head_dim
    return keys[source[source < len(keys)]]


def common_direction(x: torch.Tensor) -> float:
    """Length of the mean of unit rows, times sqrt(rows): about 1 where signs are free (gate rows: 2.8 to 4.6)."""
    return float(unit(x).mean(dim=0).norm()) * len(x) ** 0.5 if len(x) else 0.0


def head_contrast(squares: torch.Tensor, width: int) -> float:
    """Z score of squared cosines inside blocks of ``width`` lines against those of neighbouring blocks.

    Only neighbours are compared, so that what changes slowly along a matrix does not pass for a block.
    """
    count = len(squares) - len(squares) % width
    if count <= width:
        return 0.0
    blocks = squares[:count, :count].reshape(count // width, width, count // width, width).transpose(1, 2)
    inside = blocks.diagonal(dim1=0, dim2=1)  # (width, width, blocks)
    off = inside[~torch.eye(width, dtype=torch.bool)]
    beside = blocks.diagonal(offset=1, dim1=0, dim2=1)
    deviation = float(beside.std())
    if deviation <= 0 or not off.numel():
        return 0.0
    return float(off.mean() - beside.mean()) / deviation * math.sqrt(beside.numel() * 2)


def head_widths(matrices: Iterable[Iterable[torch.Tensor]], widths: Sequence[int] = WIDTHS) -> dict[int, float]:
    """How much a head of each width stands out among the rows of values and keys.

    Rows of a head are more alike than rows of neighbouring heads, or, in some encoders, less: the sizes of both count.

    Args:
        matrices: For value and key (query and output columns too where every head has its own), unit lines by layer.
        widths: Candidates; those that do not divide the lines, or are all of them, are left out.

    Returns:
        Width to summed absolute z score. The true width has the largest: 67 to 234 for two matrices of trained
        families, where the next best has 25 to 111.
    """
    scores: dict[int, float] = {}
    for layers in matrices:
        total: torch.Tensor | None = None
        for x in layers:
            squares = (x @ x.T).square()
            total = squares if total is None else total + squares
        if total is None:
            continue
        for width in widths:
            if 0 < width < len(total):
                scores[width] = scores.get(width, 0.0) + abs(head_contrast(total, width))
    return scores


def column_norms(checkpoint: Checkpoint, view: View) -> torch.Tensor:
    """Norm of every column of a matrix, float32 (d)."""
    total = torch.zeros(view.shape[1])
    for block in read_blocks(checkpoint, view, 256):
        total += torch.nan_to_num(block.float(), 0.0, 0.0, 0.0).square().sum(dim=0)
    return total.sqrt()


def moves_with(gain: torch.Tensor, norms: torch.Tensor) -> float:
    """Absolute correlation of log |gain| with log column norms; 0 where either is constant."""
    one, other = (torch.nan_to_num(x.abs()).clamp_min(1e-6).log() for x in (gain, norms))
    one, other = one - one.mean(), other - other.mean()
    scale = float(one.norm() * other.norm())
    return abs(float(one @ other)) / scale if scale > 1e-12 else 0.0


def pair_lead(query: torch.Tensor, key: torch.Tensor, head_dim: int) -> float:
    """How much more neighbouring rows of query and key align than rows half a head apart, in z.

    Args:
        query: Unit lines (n x d), whole heads.
        key: Unit lines in query order (n x d).
        head_dim: Width of a head, even.

    Returns:
        About N(0, 2) without rotary positions; positive where pairs lie side by side.
    """
    count = min(len(query), len(key)) // head_dim * head_dim
    if not count:
        return 0.0
    heads = [x[:count].reshape(-1, head_dim, x.shape[1]) for x in (query, key)]
    cosines = torch.bmm(heads[0], heads[1].transpose(1, 2)).square()
    position = torch.arange(head_dim)
    neighbour, across = position ^ 1, (position + head_dim // 2) % head_dim
    deviation = float(cosines.std()) / math.sqrt(count)
    difference = cosines[:, position, neighbour].mean() - cosines[:, position, across].mean()
    return float(difference) / deviation if deviation > 0 else 0.0
