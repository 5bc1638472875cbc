"""How the lines of a matrix lie in the residual stream, in one pass and bounded memory.

A reader's rows and a writer's columns are vectors of the stream. The mean squared cosine of these lines with a few
fixed directions does not depend on their order, sign or scale: it survives permuted units and heads, scaled units and
split experts, and tells the matrices of a model apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fingerprint.checkpoint.interface import Checkpoint

ROWS = 256


def line_profiles(
    checkpoint: Checkpoint, name: str, probes: torch.Tensor, gain: torch.Tensor | None = None
) -> list[torch.Tensor]:
    """Mean squared cosine of a tensor's lines with every probe.

    Args:
        checkpoint: Where it is stored; streamed in row blocks, packed experts one at a time.
        name: A matrix, or packed matrices with the experts first.
        probes: Directions of the stream (d x k), float32.
        gain: Scale of every dimension of the stream (d), folded into the lines.

    Returns:
        One float32 profile (k) for each of the last two axes that is d wide: rows as lines first, then columns.
    """
    shape = checkpoint.tensors[name].shape
    hidden = probes.shape[0]
    found = []
    if shape[-1] == hidden:
        found.append(_of_rows(checkpoint, name, probes, gain))
    if shape[-2] == hidden:
        found.append(_of_columns(checkpoint, name, probes, gain))
    return found


def _matrices(checkpoint: Checkpoint, name: str) -> Iterator[tuple[int, torch.Tensor]]:
    """Row blocks as float32 with the row they start at; packed experts each from row 0."""
    packed = len(checkpoint.tensors[name].shape) == 3
    start = 0
    for block in checkpoint.blocks(name, 1 if packed else ROWS):
        x = torch.nan_to_num(block.float(), 0.0, 0.0, 0.0)
        if packed:
            yield from ((0, expert) for expert in x)
        else:
            yield start, x
            start += len(x)


def _of_rows(checkpoint: Checkpoint, name: str, probes: torch.Tensor, gain: torch.Tensor | None) -> torch.Tensor:
    total, count = torch.zeros(probes.shape[1]), 0
    for _, x in _matrices(checkpoint, name):
        x = x if gain is None else x * gain
        total += _squares(x @ probes, x.square().sum(dim=1))
        count += len(x)
    return total / max(1, count)


def _of_columns(checkpoint: Checkpoint, name: str, probes: torch.Tensor, gain: torch.Tensor | None) -> torch.Tensor:
    hidden, width = probes.shape[0], checkpoint.tensors[name].shape[-1]
    total, count = torch.zeros(probes.shape[1]), 0
    along, norms = torch.zeros(width, probes.shape[1]), torch.zeros(width)
    for start, x in _matrices(checkpoint, name):
        stop = start + len(x)
        x = x if gain is None else x * gain[start:stop, None]
        along += x.T @ probes[start:stop]
        norms += x.square().sum(dim=0)
        if stop == hidden:
            total += _squares(along, norms)
            count += width
            along, norms = torch.zeros_like(along), torch.zeros_like(norms)
    return total / max(1, count)


def _squares(along: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
    """Sum over lines of squared cosines; a line of zeros adds nothing."""
    return (along.square() / norms.clamp_min(1e-30)[:, None]).sum(dim=0)
