"""One side of a comparison: a fingerprint, and the checkpoint where it is at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from fingerprint.architecture import recognise
from fingerprint.architecture.interface import Layout, Slot
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.compare.align import Canonical, load
from fingerprint.compare.moments import Moments, moments
from fingerprint.fingerprint import Fingerprint


@dataclass(frozen=True)
class Source:
    """A model to compare. What is read from the checkpoint is read once and kept.

    Attributes:
        fingerprint: Always there.
        checkpoint: Open, or None when only the fingerprint is left; then only sketch depth is possible.
    """

    fingerprint: Fingerprint
    checkpoint: Checkpoint | None = None

    @cached_property
    def layout(self) -> Layout | None:
        """Roles of the checkpoint's tensors."""
        return None if self.checkpoint is None else recognise(self.checkpoint)

    @cached_property
    def canonical(self) -> Canonical | None:
        """All tensors, in canonical form, float32."""
        if self.checkpoint is None or self.layout is None:
            return None
        return load(self.checkpoint, self.layout)

    @cached_property
    def moments(self) -> Mapping[Slot, Moments]:
        """Where inputs and gradients of the model's layers point."""
        if self.checkpoint is None or self.layout is None:
            return {}
        return moments(self.checkpoint, self.layout)

    @property
    def stored(self) -> torch.dtype:
        """Dtype that most of the parameters are stored in."""
        sizes = Counter[str]()
        for entry in self.fingerprint.tensors:
            sizes[entry.dtype] += entry.numel
        name = sizes.most_common(1)[0][0] if sizes else "F32"
        return DTYPES.get(name, torch.float32)


DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64}
"""Floating dtypes by their safetensors spelling."""
