"""Attention matrix by matrix: which directions of the stream its heads read or write, as the token probes see them.

Power sums (``heads``) need to know which value goes with which output. Where names lie that is not known, and each
matrix has to be told by itself. What no symmetry of attention can change is the space that a head's rows span: mixing
``W_v <- M W_v`` keeps it, whatever M. Under RoPE queries and keys even keep the plane of every frequency pair. The
orthogonal projector onto it turns with the stream as the probes P do, so ``T = sum_h P^T Pi_h P`` stays under mixing,
permuted heads and rotation together. Its expectation for spaces that know nothing of the probes is taken off.

Readers are looked at twice: with the gain before them folded in, and as stored at some keyed coordinates, since without
names it is not clear which gain is theirs; a stream that was turned has its gains folded already.

Measured on trained models of width 128: other matrices are .33 and more apart (relative); noise of strength e moves
them by e to 2.2 e, every symmetry at once in bf16 by .002 to .005.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from fingerprint.architecture.interface import Role
from fingerprint.invariants.folding import Folding
from fingerprint.sketch import keyed

READER, STORED, PAIRED, STORED_PAIRED, WRITER = "reader", "stored", "paired", "stored-paired", "writer"
KINDS = (READER, STORED, PAIRED, STORED_PAIRED, WRITER)
"""Rows of a head with gains folded in; as stored; rows of a frequency pair, folded and as stored; columns of a head."""

SIZES = (16, 12, 8)
"""Numbers of probes a plan may choose from; the leading ones are shared."""

STORED_WIDTH = 4
"""Coordinates taken of stored rows, in widths of a head: a head must leave most of them free."""

RIDGE = 1e-7
"""Share of a head's mean energy that is added in every direction, so that a head without full rank can be inverted."""


def size_for(layers: int, budget: int) -> int:
    """Most probes that ``budget`` bytes allow for seven spans a layer."""
    return next((k for k in SIZES if 7 * k * (k + 1) * max(1, layers) <= budget), SIZES[-1])


def scaled(probes: torch.Tensor, count: int) -> torch.Tensor:
    """The leading ``count`` probes (d, k), of unit length on average over those that all plans share."""
    chosen = probes[:, :count]
    size = chosen[:, : SIZES[-1]].square().sum(0).mean().sqrt()
    return chosen / size.clamp_min(1e-30)


class Frame:
    """From where spans are looked at.

    Args:
        probes: float32 (d, k), see ``scaled``.
        key: Sketch key, which chooses the coordinates of stored rows.
        gains: float32 (d,) of all norms that readers may have before them, where it is not known which; else none.
    """

    def __init__(self, probes: torch.Tensor, key: bytes, gains: Sequence[torch.Tensor] = ()) -> None:
        self.probes, self.gains, self._key = probes, gains, key

    def coordinates(self, size: int) -> torch.Tensor:
        """Coordinates at which stored rows of heads of ``size`` rows are taken, int64 ascending."""
        width = self.probes.shape[0]
        return torch.from_numpy(keyed.sample(self._key, "spans", width, min(width, STORED_WIDTH * size)))


class RowSpans:
    """Of a matrix whose rows are heads' rows, from blocks of whole heads.

    Args:
        probes: float32 (d, k).
        size: Rows of a head.
        paired: Whether rows i and i + size / 2 of a head span a space of their own.
    """

    def __init__(self, probes: torch.Tensor, size: int, *, paired: bool) -> None:
        self._probes, self._size, self._paired, self._rank = probes, size, paired, 0
        self._total = torch.zeros(probes.shape[1], probes.shape[1], dtype=torch.float64)

    def update(self, rows: torch.Tensor) -> None:
        """Take the next heads, float32 (n * size, d)."""
        seen = (rows @ self._probes).reshape(-1, self._size, self._probes.shape[1])
        heads = rows.reshape(-1, self._size, rows.shape[1])
        if self._paired:
            halves = heads.reshape(heads.shape[0], 2, -1, heads.shape[2])
            gram = _plane(halves[:, 0], halves[:, 1])
            seen = seen.reshape(seen.shape[0], 2, -1, seen.shape[2]).transpose(1, 2).reshape(-1, 2, seen.shape[2])
        else:
            gram = torch.stack([head @ head.T for head in heads])
        self._total += _projected(gram, seen)
        self._rank += rows.shape[0]

    @property
    def value(self) -> np.ndarray:
        """float16 (k (k + 1) / 2,) upper triangle."""
        return _triangle(self._total, self._probes, self._rank)


def _plane(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Gram matrices (n, 2, 2) of two rows each."""
    one, other = (torch.linalg.vector_norm(x, dim=-1).square().reshape(-1) for x in (first, second))
    across = torch.linalg.vecdot(first, second).reshape(-1)
    return torch.stack([one, across, across, other], dim=1).reshape(-1, 2, 2)


class ColumnSpans:
    """Of a matrix whose columns are heads' columns, from row blocks.

    Args:
        probes: float32 (d, k).
        heads: Number of heads.
        size: Columns of a head.
    """

    def __init__(self, probes: torch.Tensor, heads: int, size: int) -> None:
        self._probes, self._row = probes, 0
        self._gram = torch.zeros(heads, size, size)
        self._seen = torch.zeros(heads, size, probes.shape[1])
        self._mean = torch.zeros(heads, size, 1)

    def update(self, block: torch.Tensor) -> None:
        """Take the next rows, float32 (rows, heads * size)."""
        rows = block.shape[0]
        size = self._gram.shape[1]
        for head, gram in enumerate(self._gram):
            columns = block[:, head * size : (head + 1) * size]
            gram.addmm_(columns.T, columns)
        self._seen += (block.T @ self._probes[self._row : self._row + rows]).reshape(self._seen.shape)
        self._mean += block.sum(0).reshape(self._mean.shape)
        self._row += rows

    def centre(self) -> None:
        """Take the mean over the stream out of every column, as a LayerNorm does."""
        width = max(1, self._row)
        self._gram -= self._mean @ self._mean.transpose(1, 2) / width
        self._seen -= self._mean * (self._probes.mean(0) if self._row else 0.0)

    @property
    def value(self) -> np.ndarray:
        """float16 (k (k + 1) / 2,) upper triangle."""
        heads, size = self._gram.shape[:2]
        return _triangle(_projected(self._gram, self._seen), self._probes, heads * size)


def _projected(gram: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Sum over heads of seen^T gram^-1 seen, float64 (k, k).

    Args:
        gram: float (heads, size, size).
        seen: float (heads, size, k).
    """
    exact = gram.to(torch.float64)
    energy = exact.diagonal(dim1=1, dim2=2).mean(1)
    ridge = torch.where(energy > 0, RIDGE * energy, torch.ones_like(energy))
    exact = exact + ridge[:, None, None] * torch.eye(gram.shape[1], dtype=torch.float64)
    factor, failed = torch.linalg.cholesky_ex(exact)
    whole = failed == 0
    half = torch.linalg.solve_triangular(factor[whole], seen[whole].to(torch.float64), upper=False)
    flat = half.reshape(-1, seen.shape[2])
    total: torch.Tensor = flat.T @ flat
    return total


def _triangle(total: torch.Tensor, probes: torch.Tensor, rank: int) -> np.ndarray:
    """Upper triangle of what spaces of this rank hold of the probes beyond their share."""
    exact = probes.to(torch.float64)
    rest = torch.nan_to_num(total - exact.T @ exact * (rank / max(1, probes.shape[0])))
    return rest.numpy()[np.triu_indices(rest.shape[0])].astype(np.float16)


class Spans:
    """Spans of one attention matrix, in all the kinds that are asked for, from one stream of its blocks.

    Args:
        frame: From where it is looked at.
        folding: Of a reader of attention.
        shape: Of the matrix.
        heads: Heads it holds.
        kinds: Which to make.
    """

    def __init__(
        self, frame: Frame, folding: Folding, shape: tuple[int, ...], heads: int, kinds: tuple[str, ...]
    ) -> None:
        self._folding, self._buffer = folding, torch.empty(0)
        self._chosen = frame.coordinates(shape[0] // heads)
        self._parts: dict[str, RowSpans | ColumnSpans] = {}
        for kind in kinds:
            if kind == WRITER:
                self._parts[kind] = ColumnSpans(frame.probes, heads, shape[1] // heads)
            else:
                probes = frame.probes if kind in FOLDED else frame.probes[self._chosen]
                self._parts[kind] = RowSpans(probes, shape[0] // heads, paired=kind in (PAIRED, STORED_PAIRED))

    def watch(self, blocks: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        """The blocks as they come, after a look at each."""
        for block in blocks:
            folded = self._folded(block) if self._parts.keys() & FOLDED else block
            stored = block[:, self._chosen] if self._parts.keys() - FOLDED - {WRITER} else block
            for kind, part in self._parts.items():
                part.update(block if kind == WRITER else folded if kind in FOLDED else stored)
            yield block

    def _folded(self, block: torch.Tensor) -> torch.Tensor:
        if self._buffer.shape != block.shape:
            self._buffer = torch.empty_like(block)
        return self._folding.reader(block, out=self._buffer)

    @property
    def value(self) -> dict[str, np.ndarray]:
        """By kind, float16 upper triangles."""
        for part in self._parts.values():
            if isinstance(part, ColumnSpans) and self._folding.centred:
                part.centre()
        return {kind: part.value for kind, part in self._parts.items()}


FOLDED = frozenset({READER, PAIRED})
SPANNED = (Role.QUERY, Role.KEY, Role.VALUE, Role.OUT)


def kinds_of(role: Role, shape: tuple[int, ...], *, rotary: bool, doubtful: bool) -> tuple[str, ...]:
    """What is made of a matrix; of one whose role is only guessed, what any role it may have needs.

    Args:
        role: One of SPANNED.
        shape: Of the matrix.
        rotary: Whether all of a head turns with positions.
        doubtful: Whether roles were guessed.
    """
    if doubtful and shape[0] == shape[1]:
        return KINDS
    if role is Role.OUT:
        return (WRITER,)
    if doubtful:
        return KINDS[:-1]
    return (PAIRED, STORED_PAIRED) if rotary and role is not Role.VALUE else (READER, STORED)


def distance(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], role: Role) -> float:
    """How far two matrices' spans are apart, relative to the second's; infinite where nothing can be compared.

    Args:
        ours: Of the candidate, by kind.
        theirs: Of the reference, by kind.
        role: Role of the reference's matrix.
    """
    kinds = (WRITER,) if role is Role.OUT else (READER, STORED) if READER in theirs else (PAIRED, STORED_PAIRED)
    found = [_apart(ours[k], theirs[k]) for k in kinds if k in ours and k in theirs]
    return min(found, default=float("inf"))


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    x, y = _square(a), _square(b)
    size = min(x.shape[0], y.shape[0])
    x, y = x[:size, :size], y[:size, :size]
    whole = float(np.linalg.norm(y))
    return float(np.linalg.norm(x - y)) / whole if whole > LEAST else float("inf")


LEAST = 1e-2
"""Size of a span below which heads fill the whole stream, and say nothing."""


def _square(triangle: np.ndarray) -> np.ndarray:
    """The symmetric matrix of an upper triangle, float64 (k, k)."""
    size = int((np.sqrt(8 * triangle.size + 1) - 1) // 2)
    full = np.zeros((size, size))
    full[np.triu_indices(size)] = triangle
    return full + np.triu(full, 1).T
