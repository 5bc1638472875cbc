"""Scales and zero points, spread over the elements they belong to.

Every quantiser stores one scale for a tensor, for each index of an axis, or for each block of one or two axes. All are
one case: a parameter of the tensor's rank whose axes are 1, full, or full divided by a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def block_steps(
    have: Sequence[int], shape: Sequence[int], blocks: Sequence[int | None] | None = None
) -> tuple[int, ...] | None:
    """How many elements of each axis share one entry of a parameter.

    Args:
        have: The parameter's shape, of the tensor's rank.
        shape: The tensor's shape.
        blocks: Declared block per axis; where None, a size that divides evenly is taken.

    Returns:
        Elements per entry and axis, or None when the parameter does not fit.
    """
    if len(have) != len(shape):
        return None
    steps = []
    for i, (entries, size) in enumerate(zip(have, shape, strict=True)):
        block = blocks[i] if blocks is not None else None
        if entries == 1:
            steps.append(max(1, size))
        elif entries == size:
            steps.append(1)
        elif block and -(-size // block) == entries:
            steps.append(block)
        elif block is None and entries and size % entries == 0:
            steps.append(size // entries)
        else:
            return None
    return tuple(steps)


def spread(
    parameter: torch.Tensor, steps: Sequence[int], shape: Sequence[int], *, axis: int = 0, lo: int, hi: int
) -> torch.Tensor:
    """The parameter for indices [lo, hi) of ``axis``, in float32, ready to broadcast.

    Args:
        parameter: Scale or zero point of the tensor's rank.
        steps: From ``block_steps``.
        shape: The tensor's shape.
        axis: The axis that is cut.
        lo: First index.
        hi: Index after the last.
    """
    out = parameter.to(torch.float32)
    for i, (have, step, size) in enumerate(zip(parameter.shape, steps, shape, strict=True)):
        first, last = (lo, hi) if i == axis else (0, size)
        if have == 1:
            continue
        part = out.narrow(i, first // step, -(-last // step) - first // step)
        out = part.repeat_interleave(step, dim=i).narrow(i, first % step, last - first) if step > 1 else part
    return out
