"""A model in canonical form: every slot as a whole float32 matrix, whatever the files looked like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fingerprint.architecture.interface import Layout, Slot
from fingerprint.architecture.reading import read
from fingerprint.checkpoint.interface import Checkpoint


@dataclass(frozen=True)
class Canonical:
    """What ``align`` compares.

    Attributes:
        layout: Which slot is what.
        tensors: Slot to float32 tensor of the slot's canonical shape.
        tokens: Token string by id, where a tokenizer was at hand.
    """

    layout: Layout
    tensors: Mapping[Slot, torch.Tensor]
    tokens: tuple[str, ...] | None = None


def load(checkpoint: Checkpoint, layout: Layout) -> Canonical:
    """Read every slot of ``layout``, as float32.

    Args:
        checkpoint: Opened checkpoint; read once, slot by slot.
        layout: What ``recognise`` said about it.

    Returns:
        The model; integer and boolean tensors are converted too, so that nothing is left out of the comparison. NaN and
        infinity are zero, as in a fingerprint: one of them must not end the comparison.
    """
    tensors = {slot: _finite(read(checkpoint, view).to(torch.float32)) for slot, view in layout.slots.items()}
    return Canonical(layout, tensors, checkpoint.token_strings())


def _finite(x: torch.Tensor) -> torch.Tensor:
    return x if bool(torch.isfinite(x).all()) else torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
