"""Cut stored tensors into slots: orientation, fused projections, packed experts, rotary pair order.

Every function is arithmetic on shapes; nothing is read. Fused layouts as in transformers 5: stacked (Phi-3
``qkv_proj``, ``gate_up_proj``; GPT-2 ``c_attn``), grouped by key/value head (GPT-NeoX, Falcon, Bloom, InternLM2), and
packed experts ``gate_up_proj [E, 2I, H]``, ``down_proj [E, H, I]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .interface import Role, Slot, View

WRITERS = frozenset({Role.OUT, Role.DOWN})
"""Roles whose output is the residual stream: (d x inner). All other matrices read it: (inner x d)."""

PER_LAYER_BIAS = {
    role: Role(f"{role.value}_bias") for role in Role if f"{role.value}_bias" in {other.value for other in Role}
}


@dataclass(frozen=True)
class Heads:
    """Head geometry; all zero where it is not known."""

    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0


def is_transposed(shape: tuple[int, ...], *, writer: bool, hidden: int) -> bool | None:
    """Whether a matrix of the residual stream lies (in x out).

    Args:
        shape: Stored shape; the last two axes count.
        writer: Whether it writes to the stream (OUT, DOWN).
        hidden: Width of the stream.

    Returns:
        True or False where one axis alone is ``hidden``.

    Raises:
        ValueError: No axis is ``hidden``, so that the shape contradicts the role.
        LookupError: Both axes are ``hidden``: the shape does not say.
    """
    rows, columns = shape[-2:]
    expected, other = (rows, columns) if writer else (columns, rows)
    if expected == hidden and other == hidden:
        raise LookupError("square")
    if expected == hidden:
        return False
    if other == hidden:
        return True
    raise ValueError("neither axis is the residual stream")


def oriented(shape: tuple[int, ...], transpose: bool) -> tuple[int, ...]:
    """The shape after the last two axes are swapped, if they are."""
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def stacked(tensor: str, shape: tuple[int, ...], transpose: bool, sizes: tuple[int, ...]) -> Iterator[View]:
    """Views of parts that lie one under the other along the oriented first axis."""
    full = oriented(shape, transpose)
    start = 0
    for size in sizes:
        yield View(tensor, (size, *full[1:]), transpose=transpose, rows=(start, start + size))
        start += size


def grouped(tensor: str, shape: tuple[int, ...], transpose: bool, heads: Heads) -> Iterator[View]:
    """Query, key and value views of a projection that lies group by group: g queries, a key, a value.

    One group per key/value head; with one query a group this is NeoX and Bloom, with one group it is stacked.
    """
    full = oriented(shape, transpose)
    per_group = heads.heads // heads.kv_heads
    if heads.kv_heads == 1:
        yield from stacked(tensor, shape, transpose, (heads.heads * heads.head_dim, heads.head_dim, heads.head_dim))
        return
    for first, count in ((0, per_group), (per_group, 1), (per_group + 1, 1)):
        order = tuple(
            (group * (per_group + 2) + first + head) * heads.head_dim + row
            for group in range(heads.kv_heads)
            for head in range(count)
            for row in range(heads.head_dim)
        )
        yield View(tensor, (len(order), *full[1:]), transpose=transpose, order=order)


def half_split(tensor: str, shape: tuple[int, ...], transpose: bool, head_dim: int) -> View:
    """A query or key view that gathers neighbouring rotary pairs into transformers' half-split order."""
    full = oriented(shape, transpose)
    half = head_dim // 2
    order = tuple(
        head * head_dim + 2 * row + part
        for head in range(full[0] // head_dim)
        for part in range(2)
        for row in range(half)
    )
    return View(tensor, full, transpose=transpose, order=order)


def packed(
    tensor: str, shape: tuple[int, ...], transpose: bool, roles: tuple[Role, ...], layer: int
) -> Iterator[tuple[Slot, View]]:
    """Slots of every expert of a tensor that has the experts first; two roles are stacked gate over up."""
    experts = shape[0]
    inner = oriented(shape, transpose)[1:]
    rows = inner[0] // len(roles)
    for expert in range(experts):
        for part, role in enumerate(roles):
            cut = None if len(roles) == 1 else (part * rows, (part + 1) * rows)
            view = View(tensor, (rows, *inner[1:]), index=expert, transpose=transpose, rows=cut)
            yield Slot(role, layer, expert), view
