"""Head geometry: what shapes leave open, told by QK-norms, then by a config that agrees."""

from __future__ import annotations

from .config import Hints
from .cutting import Heads


def solve_heads(hints: Hints, *, query_rows: int, key_rows: int, norm_length: int) -> tuple[Heads, tuple[str, ...]]:
    """Number of heads and their width.

    Args:
        hints: Claims of the config.
        query_rows: Rows of the query matrix.
        key_rows: Rows of the key matrix.
        norm_length: Length of a per-head query or key norm; 0 without one.

    Returns:
        Geometry (all zero where nothing decides) and what contradicted it.
    """
    if query_rows <= 0 or key_rows <= 0:
        return Heads(), ()
    notes: list[str] = []
    claimed = _claimed(hints, query_rows)
    width = norm_length if _fits(norm_length, query_rows, key_rows) and norm_length < query_rows else 0
    if not width:
        width = next((c for c in claimed if _fits(c, query_rows, key_rows)), 0)
    if not width:
        if claimed:
            notes.append(
                f"config contradicts shapes: heads {hints.heads}, query rows {query_rows}, key rows {key_rows}"
            )
        return Heads(), tuple(notes)
    found = Heads(query_rows // width, key_rows // width, width)
    for label, claim, real in (("heads", hints.heads, found.heads), ("head_dim", hints.head_dim, width)):
        if claim and claim != real:
            notes.append(f"config contradicts shapes: {label} got {claim}, expected {real}")
    return found, tuple(notes)


def _claimed(hints: Hints, query_rows: int) -> list[int]:
    """Head widths the config implies, most telling first: by count where it divides, then as stated."""
    by_count = query_rows // hints.heads if hints.heads and query_rows % hints.heads == 0 else 0
    if hints.head_dim and by_count and hints.head_dim != by_count and query_rows % hints.head_dim == 0:
        return [hints.head_dim, by_count]
    return [width for width in (by_count, hints.head_dim) if width]


def _fits(width: int, query_rows: int, key_rows: int) -> bool:
    """Whether ``width`` cuts both into whole heads, with as many query heads for every key head."""
    if width <= 0 or query_rows % width or key_rows % width:
        return False
    return (query_rows // width) % (key_rows // width) == 0
